"""Expressions of Ibis rewritten so that no engine raises, whatever the values are.

Every engine computes with IEEE doubles, but some make an error of what IEEE gives a result for. An
error that depends on a value would be an answer about it, and is not the same as on other engines.
Here every operation is total: casts of doubles to whole numbers never fail, and on an engine that
traps (PostgreSQL: a product that overflows or vanishes, a division by zero) the result that IEEE
has is chosen before the operation would be tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from privmean.data.grids import HUGE

if TYPE_CHECKING:
    from ibis.expr.datatypes import DataType
    from ibis.expr.operations import Node
    from ibis.expr.types import Table, Value


WHOLE = 2.0**63
BELOW = 2.0**63 - 1024  # the double before it
LARGEST, LEAST = 1.7976931348623157e308, 5e-324
FAR = 2.0**-500  # below, a square or a quotient of a row is nothing beside the row's own scale


def total(table: Table, *, traps: bool) -> Table:
    """The same table expression made of total operations."""
    import ibis.expr.operations as ops

    def replaced(node: Node, children: Mapping[str, Node] | None) -> Node:
        if children:
            node = node.__recreate__(children)
        if isinstance(node, ops.Floor | ops.Ceil):
            return _rounded(node, traps)
        if isinstance(node, ops.Multiply | ops.Subtract | ops.Coalesce):
            node = _in_doubles(node)
        if isinstance(node, ops.Literal):
            return _literal(node, traps)
        if isinstance(node, ops.Cast):
            return _cast(node, traps)
        if isinstance(node, ops.Abs) and node.arg.dtype.is_integer():
            return ops.Cast(node, node.arg.dtype)  # where the absolute value has a type of its own
        if isinstance(node, ops.Multiply) and node.dtype.is_floating():
            return _product(node, traps)
        if isinstance(node, ops.Divide) and traps:
            return _ratio(node)
        return node

    return table.op().replace(replaced).to_expr()


def _rounded(node: Node, traps: bool) -> Node:
    """Down or up, a whole number of 64 bits as Ibis has it; null where that cannot be."""
    import ibis
    import ibis.expr.operations as ops

    double = ibis.expr.datatypes.float64
    name = "floor" if isinstance(node, ops.Floor) else "ceil"
    rounded = named_function(name, (double,), double)(node.arg.to_expr()).op()
    return _cast(ops.Cast(rounded, ibis.expr.datatypes.int64), traps)


def _in_doubles(node: Node) -> Node:
    """What was rounded down or up is the double that it was in arithmetic of doubles: engines take
    as long to make it a whole number and a double again as for all the rest."""
    import ibis.expr.operations as ops

    def double(item: object) -> object:
        if isinstance(item, tuple):
            return tuple(map(double, item))
        if isinstance(item, ops.Cast | ops.TryCast) and item.to.is_integer():
            whole = item.arg
            return whole if isinstance(whole, ops.ScalarUDF) and whole.dtype.is_floating() else item
        return item

    if not node.dtype.is_floating():
        return node
    return node.copy(**{name: double(getattr(node, name)) for name in node.argnames})


def named_function(
    name: str, kinds: tuple[DataType, ...], result: DataType
) -> Callable[..., Value]:
    """A function of the engine by its name, for Ibis expressions."""
    import ibis

    wrapped = _one if len(kinds) == 1 else _two
    made: Callable[..., Value] = ibis.udf.scalar.builtin(
        wrapped, name=name, signature=(kinds, result)
    )
    return made


def _one(x: Value) -> Value:
    """Stands for a function of the engine."""
    raise NotImplementedError


def _two(x: Value, y: Value) -> Value:
    """The same, of two arguments."""
    raise NotImplementedError


def _literal(node: Node, traps: bool) -> Node:
    """A double as a double: where `traps`, texts with a point are decimals. Infinities as texts,
    which every engine reads. A zero without a sign, which some engines order below the other."""
    import ibis

    value = node.value
    if not isinstance(value, float):
        return node
    value = value + 0.0
    if traps or not math.isfinite(value):
        return ibis.literal(repr(value)).cast("float64").op()
    return ibis.literal(value).op()


def _cast(node: Node, traps: bool) -> Node:
    """Of a truth value a double, 1 or 0; of a double a whole number, without an error where there
    is none."""
    import ibis
    import ibis.expr.operations as ops

    kind = node.arg.dtype
    x = node.arg.to_expr()
    if kind.is_boolean() and node.to.is_floating():
        return ibis.cases((x, 1.0), (~x, 0.0)).op()
    if kind.is_floating() and node.to.is_integer():
        if not traps:
            return ops.TryCast(node.arg, node.to)
        return ops.Cast(_within(x, -WHOLE, BELOW), node.to)
    return node


def _within(x: Value, low: float, high: float) -> Value:
    """A double between two limits, null for a null (which greatest and least pass over), NaN at the
    upper one. The expression is written once, so that steps do not double it."""
    import ibis

    double = ibis.expr.datatypes.float64
    larger, smaller = (
        named_function(name, (double, double), double) for name in ("float8larger", "float8smaller")
    )
    ends = [ibis.literal(repr(item)).cast("float64") for item in (low, high)]
    return smaller(larger(x, ends[0]), ends[1]).op()


def _product(node: Node, traps: bool) -> Node:
    """a b as IEEE has it. Of two columns, the square of one is guarded (its factors can be of any
    size); other products of columns are of factors that `frame` keeps in range."""
    import ibis.expr.operations as ops
    from ibis import cases, literal

    a, b = node.left, node.right
    if _number(a) is not None:
        a, b = b, a
    factor = _number(b)
    if isinstance(a, ops.SearchedCase) and factor == 0.0:
        return literal(0.0).op()  # the zero of `records.divided`
    if not traps:
        return node
    x, zero, inf = a.to_expr(), literal("0.0").cast("float64"), literal("inf").cast("float64")
    if factor is not None:
        size = abs(factor)
        if factor == 0.0 or size == 1.0 or _number(a) is not None:
            return node
        product = node.to_expr()
        if size < 1.0:
            low = least_factor(size)
            return node if low <= LEAST else cases((x.abs() < low, zero), else_=product).op()
        # an infinity becomes the largest double, which is on the same side of all limits
        most = most_factor(size)
        return ops.Multiply(_within(x, -most, most), b)
    if a == b:
        return cases(
            (x.abs() < least_root(), zero), (x.abs() > HUGE, inf), else_=node.to_expr()
        ).op()
    return node


def _number(node: Node) -> float | None:
    """The number that an expression is, if it is one."""
    import ibis.expr.operations as ops

    if isinstance(node, ops.Cast):
        node = node.arg
    if not isinstance(node, ops.Literal) or node.value is None:
        return None
    return float(node.value)


def _ratio(node: Node) -> Node:
    """a/b, null where b is zero."""
    from ibis import cases, literal

    a, b = node.left.to_expr(), node.right.to_expr()
    none, zero = literal(None, "float64"), literal("0.0").cast("float64")
    vanishes = (a.abs() < FAR) & (b.abs() > 1.0)
    return cases((b == 0.0, none), (vanishes, zero), else_=node.to_expr()).op()


def least_factor(factor: float) -> float:
    """The least x > 0 for which x times a factor below 1 is not rounded to zero."""
    x = LEAST / factor / 2
    while x * factor > 0.0:
        x = math.nextafter(x, 0.0)
    while x * factor == 0.0:
        x = math.nextafter(x, math.inf)
    return x


def most_factor(factor: float) -> float:
    """The largest x for which x times a factor above 1 is finite."""
    x = LARGEST / factor
    while math.isinf(x * factor):
        x = math.nextafter(x, 0.0)
    while not math.isinf(math.nextafter(x, math.inf) * factor):
        x = math.nextafter(x, math.inf)
    return x


def least_root() -> float:
    """The least x > 0 whose square is not rounded to zero."""
    x = math.ldexp(math.sqrt(0.5), -537)
    while x * x > 0.0:
        x = math.nextafter(x, 0.0)
    while x * x == 0.0:
        x = math.nextafter(x, math.inf)
    return x
