"""Writes docs/schemas/study.schema.json, the schema of study files, from the declarations alone.

python docs/site-tools/study_schema.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from privmean.api.parse_question import QUESTIONS, Field, fields_of, question_class
from privmean.study.study_file import BUDGET, NEEDED, OWN, STUDY, TEXT, TYPES

PAGE = Path(__file__).resolve().parents[1] / "schemas" / "study.schema.json"


def schema() -> dict[str, Any]:
    """The JSON schema of a study file, from the declarations alone."""
    kinds = [_kind_schema(kind) for kind in QUESTIONS]
    return {
        "$id": "privmean:study:2",
        "title": "A study of privmean: study.toml",
        "type": "object",
        "required": list(NEEDED),
        "additionalProperties": False,
        "properties": {
            "table": {**_object(TEXT), "required": ["source", "person"]},
            "budget": _object(BUDGET),
            "study": _object(STUDY),
            "questions": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"anyOf": kinds},
            },
        },
    }


def _object(known: Mapping[str, tuple[Any, str]]) -> dict[str, Any]:
    words = {
        name: {"type": TYPES[kind], "description": text} for name, (kind, text) in known.items()
    }
    return {"type": "object", "additionalProperties": False, "properties": words}


def _kind_schema(kind: str) -> dict[str, Any]:
    """One kind of question: its own fields, and what a study says of any."""
    own = _object({name: item for name, item in OWN.items() if name != "ask"})["properties"]
    found = fields_of(question_class(kind))
    words = {item.name: {"type": _types_of(item), "description": item.help} for item in found}
    return {
        "type": "object",
        "required": ["ask", *(item.name for item in found if item.required)],
        "additionalProperties": False,
        "properties": {"ask": {"const": kind}, **words, **own},
    }


def _types_of(item: Field) -> list[str]:
    """What a field may be in a file: its own type, or the text that stands for it."""
    found = set()
    for part in (item.hint, *get_args(item.hint)):
        if part is Any:
            return ["string", "number", "array", "boolean", "object"]
        if part in (bool, int, float, str):
            found.add(TYPES[part])
        elif get_origin(part) in (tuple, list) or "Sequence" in str(part):
            found |= {"array", "string"}
        elif "Mapping" in str(part):
            found |= {"object", "array"}
        elif isinstance(part, type) and part is not type(None):
            found |= {"string", "array", "number"}  # a class is said by its text, or plain numbers
    if not found:
        return ["string", "number", "array", "boolean", "object"]
    if "number" in found:
        found.add("integer")
    return sorted(found)


if __name__ == "__main__":
    PAGE.write_text(json.dumps(schema(), indent=2) + "\n")
