"""A formula as polynomials in variables: which need a center and a scale, and what that changes.

A term that is a product of powers of variables is built from (x - c)/s, if every term of its
expansion is in the formula: the span is then the same, and coefficients of the standardized terms
map to those of the formula's own terms by a matrix. Any other term is a variable of its own. Reads
no data; centers and scales are public or released.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb, prod

import numpy as np

from privmean.array_types import Floats
from privmean.estimators.regression.formula import INTERCEPT, Model, Tree, own_column

Monomial = tuple[tuple[str, int], ...]  # powers of variables by name, in order of names
Units = Mapping[str, tuple[float, float]]  # center and scale of each variable


@dataclass(frozen=True)
class Term:
    """One regressor. powers: of variables; own: the column whose person mean it is, or None."""

    name: str
    powers: Monomial
    own: str | None = None


@dataclass(frozen=True)
class Design:
    """terms: of the formula, in its order. trees: what each variable is, by name, the response
    last. indicators: variables that are 0 or 1 by declaration. centred: whether variables may be
    moved (there is an intercept, or person means are taken off)."""

    terms: tuple[Term, ...]
    trees: tuple[tuple[str, Tree], ...]
    indicators: frozenset[str]
    response: str
    centred: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(term.name for term in self.terms)

    @property
    def numeric(self) -> tuple[str, ...]:
        """The variables that need a center and a scale, the response last."""
        return tuple(name for name, _ in self.trees if name not in self.indicators)

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns whose person means are terms and that are no terms themselves."""
        plain = {term.powers[0][0] for term in self.terms if term.powers and _linear(term)}
        wanted = (term.own for term in self.terms if term.own is not None)
        return tuple(dict.fromkeys(x for x in wanted if x not in plain))

    def made_of(self, variables: Set[str]) -> tuple[int, ...]:
        """The terms that are made of any of these."""
        return tuple(
            j
            for j, term in enumerate(self.terms)
            if term.own in variables or any(name in variables for name, _ in term.powers)
        )

    @property
    def declared(self) -> tuple[int, ...]:
        """The terms that are 0 or 1 by declaration."""
        return tuple(
            j
            for j, term in enumerate(self.terms)
            if term.powers and all(name in self.indicators for name, _ in term.powers)
        )

    @cached_property
    def columns(self) -> tuple[tuple[str, Monomial], ...]:
        """What is read of a record: regressors but the intercept and person means, then hidden
        columns, then the response."""
        kept = [(term.name, term.powers) for term in self.terms if term.powers]
        kept += [(f"hidden {name}", ((name, 1),)) for name in self.hidden]
        return (*kept, (self.response, ((self.response, 1),)))

    def products(self, units: Units) -> list[list[Tree]]:
        """The columns in standard units, as expressions of one record."""
        return [self._product(powers, units) for _, powers in self.columns]

    def whole(self, units: Units) -> list[list[Tree]]:
        """All terms in standard units, the intercept as an empty product, and the response."""
        powers = [*(term.powers for term in self.terms), ((self.response, 1),)]
        return [self._product(item, units) for item in powers]

    def _product(self, powers: Monomial, units: Units) -> list[Tree]:
        trees = dict(self.trees)
        return [
            factor
            for name, power in powers
            for factor in [self._standard(name, trees[name], units)] * power
        ]

    def sizes(self, units: Units) -> tuple[float, ...]:
        """What each term is in standard units of its variables, for variables that are not moved,
        and the response's."""
        powers = [*(term.powers for term in self.terms), ((self.response, 1),)]
        return tuple(
            prod(units[name][1] ** power for name, power in item if name not in self.indicators)
            for item in powers
        )

    def _standard(self, name: str, tree: Tree, units: Units) -> Tree:
        if name in self.indicators:
            return tree
        centre, scale = units[name]
        moved = ast.BinOp(tree, ast.Sub(), ast.Constant(centre)) if self.centred else tree
        return ast.BinOp(moved, ast.Mult(), ast.Constant(1 / scale))

    def expansion(self, units: Units) -> Floats:
        """E: the standardized terms are E times the terms of the formula (shape (p, p))."""
        place = {_key(term): j for j, term in enumerate(self.terms)}
        matrix = np.zeros((len(self.terms), len(self.terms)))
        for j, term in enumerate(self.terms):
            for key, factor in self._expanded(term, units):
                if key in place:  # a constant that person means take off has no place
                    matrix[j, place[key]] += factor
        return matrix

    def _expanded(self, term: Term, units: Units) -> list[tuple[object, float]]:
        if term.own is not None:
            centre, scale = units[term.own]
            found: list[tuple[object, float]] = [(_key(term), 1 / scale)]
            return [*found, ((), -centre / scale)] if self.centred else found
        return [
            (key, factor)
            for key, factor in _expand(term.powers, units, self.indicators, self.centred)
        ]


def design_of(model: Model, *, within: bool) -> Design:
    """The design of a formula; within: person means are taken off, and there is no intercept."""
    centred = within or INTERCEPT in model.names
    trees: dict[str, Tree] = {}
    indicators: set[str] = set()
    powers: dict[str, Monomial | None] = {}
    owns: dict[str, str] = {}
    for name, factors in model.terms:
        if factors and (column := own_column(factors[0])) is not None:
            owns[name] = column
            continue
        powers[name] = _monomial(factors)
        for tree in factors:
            for part in _atoms(tree):
                if isinstance(part, ast.Compare):
                    indicators.add(ast.unparse(part))
    known = {item for item in powers.values() if item is not None}
    terms = []
    for name, factors in model.terms:
        if name in owns:
            terms.append(Term(name, (), owns[name]))
            trees.setdefault(owns[name], ast.Name(owns[name]))
            continue
        found = powers[name]
        if found is not None:
            found = tuple((v, 1 if v in indicators else k) for v, k in found)
            units = {v: (1.0, 1.0) for v, _ in found}
            wanted = {key for key, _ in _expand(found, units, frozenset(indicators), centred)}
            if wanted - known - ({()} if within else set()):
                found = None
        if found is None:  # a variable of its own
            whole = factors[0]
            for tree in factors[1:]:
                whole = ast.BinOp(whole, ast.Mult(), tree)
            label = name
            trees[label] = whole
            found = ((label, 1),)
        else:
            for part in (p for tree in factors for p in _atoms(tree)):
                trees.setdefault(ast.unparse(part), part)
        terms.append(Term(name, found))
    response = f"response {ast.unparse(model.response)}"
    trees[response] = model.response
    return Design(tuple(terms), tuple(trees.items()), frozenset(indicators), response, centred)


def _key(term: Term) -> object:
    return ("own", term.own) if term.own is not None else term.powers


def _linear(term: Term) -> bool:
    return len(term.powers) == 1 and term.powers[0][1] == 1


def _atoms(tree: Tree) -> list[Tree]:
    """The variables of a product of powers; the tree itself if it is none."""
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
        return [*_atoms(tree.left), *_atoms(tree.right)]
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Pow):
        return _atoms(tree.left)
    return [tree]


def _monomial(factors: tuple[Tree, ...]) -> Monomial | None:
    """The powers of a product, None if it is none of columns and comparisons."""
    powers: dict[str, int] = {}

    def add(tree: Tree, times: int) -> bool:
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
            return add(tree.left, times) and add(tree.right, times)
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Pow):
            assert isinstance(tree.right, ast.Constant)
            return add(tree.left, times * int(str(tree.right.value)))
        if isinstance(tree, ast.Name | ast.Compare):
            name = ast.unparse(tree)
            powers[name] = powers.get(name, 0) + times
            return True
        return False

    if not all(add(tree, 1) for tree in factors):
        return None
    return tuple(sorted(powers.items()))


def _expand(
    powers: Monomial, units: Units, indicators: frozenset[str], centred: bool
) -> list[tuple[Monomial, float]]:
    """Products of ((x - c)/s)^k as a sum of products of powers of x, with their factors."""
    parts = []
    for name, power in powers:
        if name in indicators or not centred:
            scale = 1.0 if name in indicators else units[name][1]
            parts.append([(name, power, scale**-power)])
            continue
        centre, scale = units[name]
        parts.append(
            [
                (name, k, comb(power, k) * (-centre) ** (power - k) / scale**power)
                for k in range(power + 1)
            ]
        )
    found = []
    for choice in product(*parts):
        factor = 1.0
        for *_, one in choice:
            factor *= one
        found.append((tuple((name, k) for name, k, _ in choice if k), factor))
    return found
