"""As much of JSON Schema as our published schemas use; anything else in them is refused."""

from __future__ import annotations

KINDS = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
    "number": (int, float), "null": type(None),
}  # fmt: skip
WORDS = {"$schema", "$id", "$defs", "title", "description", "default", "examples"}


def problems(value, schema, root=None, at="$"):
    """What is wrong with a value, a line each."""
    root = root or schema
    if "$ref" in schema:
        _, name = schema["$ref"].rsplit("/", 1)
        return problems(value, root["$defs"][name], root, at)
    found = []
    for word, said in schema.items():
        if word in WORDS:
            continue
        found += list(CHECKS[word](value, said, schema, root, at))
    return found


def _is(value, kind):
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, KINDS[kind])


def _type(value, said, schema, root, at):
    if not any(_is(value, kind) for kind in ([said] if isinstance(said, str) else said)):
        yield f"{at}: {value!r} is no {said}"


def _required(value, said, schema, root, at):
    if isinstance(value, dict):
        yield from (f"{at}: lacks {name}" for name in said if name not in value)


def _properties(value, said, schema, root, at):
    for name, one in said.items():
        if isinstance(value, dict) and name in value:
            yield from problems(value[name], one, root, f"{at}.{name}")


def _more(value, said, schema, root, at):
    rest = set(value) - set(schema.get("properties", {})) if isinstance(value, dict) else ()
    for name in sorted(rest):
        if said is False:
            yield f"{at}: {name} is not known"
        elif said is not True:
            yield from problems(value[name], said, root, f"{at}.{name}")


def _items(value, said, schema, root, at):
    for j, item in enumerate(value if isinstance(value, list) else ()):
        yield from problems(item, said, root, f"{at}[{j}]")


def _const(value, said, schema, root, at):
    if value != said or type(value) is not type(said):
        yield f"{at}: {value!r} is not {said!r}"


def _enum(value, said, schema, root, at):
    if value not in said:
        yield f"{at}: {value!r} is none of {said}"


def _any(value, said, schema, root, at):
    if all(problems(value, one, root, at) for one in said):
        yield f"{at}: {value!r} fits none of {len(said)} forms"


def _least(value, said, schema, root, at):
    if _is(value, "number") and value < said:
        yield f"{at}: {value} is below {said}"


def _above(value, said, schema, root, at):
    if _is(value, "number") and value <= said:
        yield f"{at}: {value} is not above {said}"


def _fewest(value, said, schema, root, at):
    if isinstance(value, dict | list) and len(value) < said:
        yield f"{at}: has fewer than {said}"


CHECKS = {
    "type": _type, "required": _required, "properties": _properties,
    "additionalProperties": _more, "items": _items, "const": _const, "enum": _enum,
    "anyOf": _any, "minimum": _least, "exclusiveMinimum": _above, "minProperties": _fewest,
    "minItems": _fewest,
}  # fmt: skip
