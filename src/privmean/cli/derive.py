"""Commands made from declarations: the fields of a question, of a table and of the terms.

Nothing is written twice: a field's type and words become an option here, the keyword in Python and
the key in a file. What one command adds of its own stands in `SHORT`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import typer

from privmean.asking.declared import Field, fields_of, question_class, question_of
from privmean.cli import options as opt
from privmean.errors import ArgumentError

Said = dict[str, Any]
KEYWORD = inspect.Parameter.KEYWORD_ONLY

PLACES = {"regression": "formula"}  # a question's argument beside the table
# options whose name is not the field's
CALLED = {"values": "--value", "contrasts": "--contrast", "levels": "--arm"}
