"""What the operators of a formula do, with numbers and with expressions of an engine alike."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}  # division and powers differ: engines have rules of their own
