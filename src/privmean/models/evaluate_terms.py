"""The terms of a formula at one given point: arithmetic on public numbers."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from privmean.errors import ArgumentError
from privmean.models.formula import Tree, own_column

Point = Mapping[str, float | str]
COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.Div: lambda a, b: a / b if b else math.nan,
}


def term_at(name: str, trees: tuple[Tree, ...], point: Point) -> float:
    """The value of one term."""
    if trees and own_column(trees[0]) is not None:
        return _number(_given(name, point), name)
    return math.prod(_number(_value(tree, point), name) for tree in trees)


def _given(name: str, point: Point) -> float | str:
    if name not in point:
        raise ArgumentError("points", name, "is required", f"give {{{name!r}: ...}}")
    return point[name]


def _number(value: float | str, name: str) -> float:
    if isinstance(value, str) or not math.isfinite(value):
        raise ArgumentError("points", value, f"must give a number for {name}", "give a number")
    return float(value)


def _value(tree: Tree, point: Point) -> float | str:
    if isinstance(tree, ast.Name):
        return _given(tree.id, point)
    if isinstance(tree, ast.Constant):
        assert isinstance(tree.value, int | float | str)
        return tree.value
    if isinstance(tree, ast.Compare):
        left, right = _value(tree.left, point), _value(tree.comparators[0], point)
        return float(COMPARED[type(tree.ops[0])](left, right))
    if isinstance(tree, ast.UnaryOp):
        inner = _number(_value(tree.operand, point), "a term")
        return -inner if isinstance(tree.op, ast.USub) else inner
    assert isinstance(tree, ast.BinOp)
    a, b = (_number(_value(side, point), "a term") for side in (tree.left, tree.right))
    return float(OPERATIONS[type(tree.op)](a, b))
