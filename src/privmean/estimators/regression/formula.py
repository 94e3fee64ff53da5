"""Formulas of regressions: which columns they need, and each term as arithmetic on one record.

The syntax is that of `formulaic` (y ~ a + b, a:b, a*b, 0 + a, I(a**2), C(a, levels=[1, 2, 3]) or
C(a, levels=["u", "v"])). Of what it can express, only arithmetic on a single record is accepted: a
term that looks at all records (center, scale, splines, levels found in the data) would make one
person's row depend on the others and is refused. The same holds for log and exp, whose last bit
engines do not agree on.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from privmean.errors import ArgumentError, PrivmeanError

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


INTERCEPT = "Intercept"
LARGEST_POWER = 8
INSIDE = re.compile(r"\([^()]*\)")  # innermost parentheses
POWER = re.compile(r"(\b[^\W\d]\w*)\s*(?:\*\*|\^)")
COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)

# A term is a product of factors, a factor an expression (Python syntax tree) of column names.
Tree = ast.expr


@dataclass(frozen=True)
class Model:
    """A formula read: response and terms (name, factors), and the columns that they use.

    texts: those of the columns that hold text, with declared levels. A term without factors is the
    intercept.
    """

    text: str
    response: Tree
    terms: tuple[tuple[str, tuple[Tree, ...]], ...]
    columns: tuple[str, ...]
    texts: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.terms)


def read_formula(formula: str, *, intercept: bool = True, own: bool = False) -> Model:
    """Parse `formula`; intercept False leaves the intercept out whatever the formula says.

    own: whether own(x), the person mean of the column x, may be a term.

    Raises ArgumentError for anything that is not arithmetic on one record.
    """
    if not isinstance(formula, str):
        raise ArgumentError("formula", formula, "must be text", "write 'y ~ a + b'")
    try:
        from formulaic import Formula
    except ModuleNotFoundError:
        raise PrivmeanError(
            "formulas require the package formulaic. Install privmean[regression]."
        ) from None
    return _read(Formula, formula, intercept, own)


@lru_cache(maxsize=256)  # a study of many questions reads each formula hundreds of times
def _read(parser: Callable[[str], Any], formula: str, intercept: bool, own: bool) -> Model:
    try:
        parsed = parser(formula)
        sides = (list(parsed.lhs), list(parsed.rhs))
        if not all(hasattr(term, "factors") for side in sides for term in side):
            raise TypeError("a formula in several parts")
    except Exception:
        raise _wrong(formula, "is not a formula with two sides", "write 'y ~ a + b'") from None
    left, right = sides
    _no_power_of_a_name(formula)
    if not formula.rpartition("~")[2].strip():
        raise _wrong(formula, "requires a term on the right of ~", "write 'y ~ a + b', or 'y ~ 1'")
    if len(left) != 1 or len(left[0].factors) != 1:
        raise _wrong(formula, "must name one response", "write one column before ~")
    response = _factor(formula, left[0].factors[0])
    if len(response) != 1 or own_column(response[0][1]) is not None or _constant(response[0][1]):
        raise _wrong(formula, "requires a numeric response", "name a column")
    constant = any(_is_one(term) for term in right)
    terms: list[tuple[str, tuple[Tree, ...]]] = []
    coded = constant  # whether categories leave out a first level
    for term in right:
        if _is_one(term):
            if intercept:
                terms.append((INTERCEPT, ()))
            continue
        products: list[tuple[str, tuple[Tree, ...]]] = [("", ())]
        for factor in term.factors:
            choices = _factor(formula, factor, drop_first=coded)
            means = [tree for _, tree in choices if own_column(tree) is not None]
            if means and not (own and len(term.factors) == 1):
                raise _wrong(
                    formula,
                    "must use own(x) as a term by itself",
                    "write own(x) as a term by itself, with effect='pooled'",
                )
            products = [
                (f"{name}:{more}" if name else more, (*trees, tree))
                for name, trees in products
                for more, tree in choices
            ]
        terms += products
    if not terms:
        raise _wrong(formula, "has no term to estimate", "write 'y ~ a + b'")
    names = [name for name, _ in terms]
    if len(set(names)) != len(names):
        raise _wrong(formula, "must name each term once", "write each term once")
    if isinstance(response[0][1], ast.Name):
        _not_on_the_right(formula, response[0][1].id, terms)
    used: dict[str, None] = {}
    for tree in (response[0][1], *(tree for _, trees in terms for tree in trees)):
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                used.setdefault(node.id)
    texts = _texts(formula, [response[0][1], *(tree for _, trees in terms for tree in trees)])
    return Model(formula, response[0][1], tuple(terms), tuple(used), texts)


def _no_power_of_a_name(formula: str) -> None:
    """Refuse a^2 and a**2 outside of I(): terms crossed with themselves, which is a alone."""
    text, before = formula, ""
    while text != before:
        text, before = INSIDE.sub("[]", text), text
    found = POWER.search(text)
    if found:
        name = found[1]
        raise _wrong(
            formula,
            f"has {name} crossed with itself, which is {name} alone",
            f"write I({name}**2) for its square",
        )


def _not_on_the_right(
    formula: str, response: str, terms: list[tuple[str, tuple[Tree, ...]]]
) -> None:
    """Refuse a response that explains itself."""
    nodes = (node for _, trees in terms for tree in trees for node in ast.walk(tree))
    if any(isinstance(node, ast.Name) and node.id == response for node in nodes):
        raise _wrong(
            formula, f"must not have its response {response} on the right", "remove it there"
        )


def _texts(formula: str, trees: list[Tree]) -> tuple[str, ...]:
    """The columns compared with text; none of them may be used as a number too."""
    found: dict[str, None] = {}
    numeric: set[str] = set()
    for tree in trees:
        if level_of_text(tree) is not None:
            assert isinstance(tree, ast.Compare)
            assert isinstance(tree.left, ast.Name)
            found.setdefault(tree.left.id)
        else:
            numeric |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for name in found:
        if name in numeric:
            raise _wrong(
                formula, f"must use {name} as text or as a number, not both", "choose one of them"
            )
    return tuple(found)


def level_of_text(tree: Tree) -> str | None:
    """The level of an indicator of text, None for anything else."""
    if isinstance(tree, ast.Compare) and isinstance(tree.comparators[0], ast.Constant):
        value = tree.comparators[0].value
        return value if isinstance(value, str) else None
    return None


def own_column(tree: Tree) -> str | None:
    """The column whose person mean a tree is, None for anything else."""
    if isinstance(tree, ast.Call) and isinstance(tree.args[0], ast.Name):
        return tree.args[0].id
    return None


def _is_one(term: Any) -> bool:
    return len(term.factors) == 1 and term.factors[0].expr == "1"


def _constant(tree: Tree) -> bool:
    return not any(isinstance(node, ast.Name) for node in ast.walk(tree))


def _factor(formula: str, factor: Any, *, drop_first: bool = True) -> list[tuple[str, Tree]]:
    """The columns of one factor: name and expression; several for a category with levels."""
    text = str(factor.expr)
    if factor.eval_method.value == "lookup":
        return [(text, ast.Name(text))]
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise _refused(formula, text, "is no arithmetic expression") from None
    if isinstance(tree, ast.Call) and _called(tree) == "C":
        return _levels(formula, text, tree, drop_first)
    if isinstance(tree, ast.Call) and _called(tree) == "own":
        if len(tree.args) != 1 or tree.keywords or not isinstance(tree.args[0], ast.Name):
            raise _refused(formula, text, "does not name one column")
        return [(text, ast.Call(ast.Constant("own"), [tree.args[0]], []))]
    if isinstance(tree, ast.Call) and _called(tree) == "I" and len(tree.args) == 1:
        if tree.keywords:
            raise _refused(formula, text, "has an argument that I() does not take")
        tree = tree.args[0]
    _check(formula, text, tree)
    return [(text, tree)]


def _called(tree: ast.Call) -> str:
    return tree.func.id if isinstance(tree.func, ast.Name) else ""


def _levels(formula: str, text: str, tree: ast.Call, drop_first: bool) -> list[tuple[str, Tree]]:
    """Indicators of the declared levels of C(column, levels=[...]), all but the first if an
    intercept is there. Records with any other value count for the first level."""
    named = {item.arg: item.value for item in tree.keywords}
    if len(tree.args) != 1 or not isinstance(tree.args[0], ast.Name) or set(named) != {"levels"}:
        raise _wrong(
            formula,
            f"has {text} without levels, but levels found in the data are private",
            "write C(column, levels=[1, 2, 3]) or C(column, levels=['u', 'v'])",
        )
    levels = _declared(formula, text, named["levels"])
    column = tree.args[0].id
    return [
        (
            f"{column}[{level if isinstance(level, str) else format(level, 'g')}]",
            ast.Compare(ast.Name(column), [ast.Eq()], [ast.Constant(level)]),
        )
        for level in levels[1 if drop_first else 0 :]
    ]


def _declared(formula: str, text: str, tree: ast.expr) -> list[float] | list[str]:
    try:
        given = list(ast.literal_eval(tree))
        names = [item for item in given if isinstance(item, str)]
        if names and len(names) < len(given):
            raise TypeError("levels of both kinds")
        levels: list[float] | list[str] = names or [float(item) for item in given]
    except (ValueError, TypeError):
        raise _wrong(
            formula,
            f"has {text}, but levels must be all numbers or all text",
            "write them out: levels=[1, 2, 3] or levels=['u', 'v']",
        ) from None
    if len(set(levels)) != len(levels) or len(levels) < 2:
        raise _refused(formula, text, "needs at least two different levels")
    return levels


def _check(formula: str, text: str, tree: Tree) -> None:
    """Only arithmetic, powers with small whole exponents and one comparison at a time."""
    if isinstance(tree, ast.Name):
        return
    if isinstance(tree, ast.Constant):
        number = tree.value
        if isinstance(number, int | float) and _finite(number):
            return
        raise _refused(formula, text, f"holds {number!r}, which is not a number")
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub | ast.UAdd):
        _check(formula, text, tree.operand)
        return
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ARITHMETIC):
        _check(formula, text, tree.left)
        _check(formula, text, tree.right)
        if never_finite(tree):
            raise _refused(formula, text, "divides by 0 or leaves the range of doubles")
        return
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Pow):
        power = tree.right.value if isinstance(tree.right, ast.Constant) else None
        if not (isinstance(power, int) and 1 <= power <= LARGEST_POWER):
            raise _refused(formula, text, f"has a power other than 1 to {LARGEST_POWER}")
        _check(formula, text, tree.left)
        if never_finite(tree):
            raise _refused(formula, text, "divides by 0 or leaves the range of doubles")
        return
    if isinstance(tree, ast.Compare) and [type(op) in COMPARISONS for op in tree.ops] == [True]:
        _check(formula, text, tree.left)
        _check(formula, text, tree.comparators[0])
        return
    if isinstance(tree, ast.Call):
        name = _called(tree) or "a function"
        raise _wrong(
            formula,
            f"has {text}, but {name} is not supported",
            "use arithmetic in I(...), or add the column to the table",
        )
    raise _refused(formula, text, "is more than arithmetic on columns")


def _finite(number: float) -> bool:
    return not isinstance(number, bool) and math.isfinite(number)


def _wrong(formula: str, problem: str, remedy: str) -> ArgumentError:
    return ArgumentError("formula", formula, problem, remedy)


def _refused(formula: str, text: str, problem: str) -> ArgumentError:
    remedy = "use arithmetic on columns, as in I(a**2)"
    return _wrong(formula, f"has {text}, which {problem}", remedy)


Point = Mapping[str, float | str]
COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
OPERATIONS = WAYS | {ast.Div: lambda a, b: a / b if b else math.nan}


def term_at(name: str, trees: tuple[Tree, ...], point: Point) -> float:
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
