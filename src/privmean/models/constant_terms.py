"""Parts of a formula whose value no record changes: such a part can make every value missing."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

WAYS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip


def never_finite(tree: ast.BinOp) -> bool:
    """Whether an operation has no finite value whatever a record holds: it divides by what is
    always 0, or is a constant beyond all doubles."""
    if isinstance(tree.op, ast.Div) and constant(tree.right) == 0:
        return True
    found = constant(tree)
    return found is not None and not math.isfinite(found)


def constant(tree: ast.expr) -> float | None:
    """The value that an expression has for every record, as doubles; None where it may change."""
    if isinstance(tree, ast.Constant):
        return float(tree.value) if isinstance(tree.value, int | float) else None
    if isinstance(tree, ast.UnaryOp):
        inner = constant(tree.operand)
        return -inner if inner is not None and isinstance(tree.op, ast.USub) else inner
    if not isinstance(tree, ast.BinOp):
        return None
    if isinstance(tree.op, ast.Sub) and ast.dump(tree.left) == ast.dump(tree.right):
        return 0.0
    left, right = constant(tree.left), constant(tree.right)
    if isinstance(tree.op, ast.Mult) and 0.0 in (left, right):
        return 0.0
    if left is None or right is None or type(tree.op) not in WAYS:
        return None
    try:
        return float(WAYS[type(tree.op)](left, right))
    except ArithmeticError:
        return math.nan
