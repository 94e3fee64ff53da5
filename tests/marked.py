"""Records in which every value is a marker, and everything that a call says, searched for them.

Texts hold `mark` behind letters of their column; numbers have digits that occur nowhere else.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import re
import traceback
import warnings

import numpy as np

import privmean as pm

PEOPLE = 300
DIGITS = 13  # of a number in a release; 1e6 pairs of other numbers agree in as many with 1e-7
FEW = 6  # of a number in an error or a warning, which hold few other numbers; logs of others count
WORD = re.compile(r"[a-z]+mark[0-9]*")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
KEYS = ["spring", "autumn"]  # the caller names these, and no marker
RARE = 10  # people whose key nobody names


def digits(text, size):
    """The first significant digits of a number, None where it has fewer."""
    found = text.partition("e")[0].replace(".", "").lstrip("0")[:size]
    return found if len(found) == size else None


class Marked:
    """Columns of records by name, as Python lists, and the markers in them."""

    def __init__(self, seed=1):
        rng = np.random.default_rng(seed)
        number = range(2 * PEOPLE)
        self.columns = {
            "p": [f"idmark{k // 2}" for k in number],
            "q": [int(k) for k in np.repeat(rng.integers(10**17, 9 * 10**17, PEOPLE), 2)],
            "x": rng.uniform(1, 9, 2 * PEOPLE).tolist(),
            "n": [int(k) for k in rng.integers(10**14, 9 * 10**14, 2 * PEOPLE)],
            "t": [f"textmark{k}" for k in number],
            "c": [f"levelmark{k % 7}" for k in number],
            "g": [KEYS[k // 2 % 2] for k in number],
            "arm": [k // 2 % 2 for k in number],
            "d": [datetime.date(2087, 2, 3) + datetime.timedelta(days=k % 300) for k in number],
        }
        for k in range(RARE):
            self.columns["g"][20 * k] = self.columns["g"][20 * k + 1] = f"keymark{k}"
        self.days = set(map(str, self.columns["d"]))
        self.numbers = [repr(item) for name in "qxn" for item in self.columns[name]]
        self._known = {
            size: {digits(item, size) for item in self.numbers} for size in (FEW, DIGITS)
        }

    def found(self, text, size=DIGITS):
        """The markers in a text."""
        words = set(WORD.findall(text)) | self.days.intersection(DAY.findall(text))
        known = self._known[size]
        return words | {item for item in NUMBER.findall(text) if digits(item, size) in known}


def texts(told):
    """Everything that a release or another result shows of itself."""
    yield str(told)
    yield repr(told)
    for name in ("details", "summary", "_repr_html_", "to_dict", "rows", "to_frame", "describe"):
        method = getattr(told, name, None)
        if callable(method) and not isinstance(told, type):
            made = method()
            yield str(made)
            if isinstance(made, dict):
                yield json.dumps(made, default=repr)
            if name == "to_frame":
                yield str(made.to_dict())


class _Kept(logging.Handler):
    def __init__(self):
        super().__init__(level=0)
        self.own, self.others = [], []

    def emit(self, record):
        line = f"{record.getMessage()} {record.args} {record.exc_info}"
        (self.own if record.name.partition(".")[0] == "privmean" else self.others).append(line)


@contextlib.contextmanager
def _logged():
    """Every record of every logger."""
    handler, root = _Kept(), logging.getLogger()
    level, off = root.level, root.manager.disable
    root.addHandler(handler)
    root.setLevel(1)
    logging.disable(logging.NOTSET)
    try:
        yield handler
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        logging.disable(off)


def said(call):
    """(what a result and the logs of others show, errors, warnings and our own log) of one call."""
    results, words = [], []
    with _logged() as log, warnings.catch_warnings(record=True) as cautions:
        warnings.simplefilter("always")
        try:
            results += texts(call())
        except pm.PrivmeanError as error:
            words += [*traceback.format_exception(error), str(error), repr(error)]
    words += [f"{item.category.__name__} {item.message}" for item in cautions]
    return "\n".join([*results, *log.others]), "\n".join([*words, *log.own])


def leaks(marked, call):
    """The markers that one call shows; what it prints is for the caller to hear."""
    results, words = said(call)
    return marked.found(results) | marked.found(words, FEW)


SAID = {"noise": pm.SimulatedNoise(1)}
WRONG = ["t", "c", "d", "p", "no such column"]  # as a value


def right(table):
    """Calls that make a release of most sources."""
    yield lambda: pm.mean(table, "x", bounds=(0, 10), epsilon=8, **SAID)
    yield lambda: pm.mean(table, ["x", "n"], epsilon=8, delta=1e-6, neighbors="add-remove",
                          n_guess=300, **SAID)  # fmt: skip
    yield lambda: pm.mean(table, "x", by="g", keys=KEYS, other_group=True, epsilon=8, **SAID)
    yield lambda: pm.mean(table, "x", by="g", epsilon=8, delta=1e-9, **SAID)
    yield lambda: pm.compare(table, "x", arms="arm", epsilon=8, **SAID)
    yield lambda: pm.regress(table, "x ~ arm + C(g, levels=('spring', 'autumn'))", epsilon=20,
                             bounds={"x": (0, 10)}, **SAID)  # fmt: skip
    yield lambda: pm.curve(table, "x", time="d", bins=["2087-01-01", "2088-01-01"],
                           bounds=(0, 10), epsilon=8, **SAID)  # fmt: skip
    yield lambda: pm.quantile(table, "x", [0.25, 0.5], bounds=(0, 10), epsilon=8, **SAID)
    yield lambda: pm.variance(table, "x", epsilon=8, **SAID)


def wrong(table):
    """Calls with a column of another type, another key, other bins."""
    for name in WRONG:
        yield lambda name=name: pm.mean(table, name, bounds=(0, 10), epsilon=1, **SAID)
    yield lambda: pm.mean(table, "*", epsilon=1, **SAID)
    yield lambda: pm.mean(table, "x", by="c", keys=["winter", 7], epsilon=1, **SAID)
    yield lambda: pm.mean(table, "x", by="d", keys=["winter"], epsilon=1, **SAID)
    yield lambda: pm.mean(table, "x", by="x", keys=[1, 2], epsilon=1, **SAID)
    yield lambda: pm.mean(table, "t", by=["c", "q"], keys=[("a", 1)], epsilon=1, **SAID)
    yield lambda: pm.mean(table, "x", by=["c", "arm"], keys=[("cold", "1.5")], epsilon=1, **SAID)
    yield lambda: pm.compare(table, "t", arms="c", levels=["a", "b"], epsilon=1, **SAID)
    yield lambda: pm.compare(table, "x", by="d", pair=["a", "b"], epsilon=1, **SAID)
    yield lambda: pm.regress(table, "x ~ C(t, levels=(1, 2))", epsilon=1, **SAID)
    yield lambda: pm.regress(table, "x ~ C(n, levels=('a', 'b'))", epsilon=1, **SAID)
    yield lambda: pm.regress(table, "t ~ c", epsilon=1, **SAID)
    for name in ("t", "c"):
        yield lambda name=name: pm.regress(table, f"x ~ {name}", epsilon=1, **SAID)
        yield lambda name=name: pm.variance(table, name, epsilon=1, **SAID)
        yield lambda name=name: pm.curve(table, "x", time=name, bins=[0, 1], epsilon=1, **SAID)
        yield lambda name=name: pm.compare(
            table, "x", arms="arm", levels=(0, 1), baseline=name, epsilon=1, **SAID
        )
    yield lambda: pm.curve(
        table, "x", time="n", bins=["2020-01-01", "2021-01-01"], epsilon=1, **SAID
    )
    yield lambda: pm.curve(table, "t", time="d", bins=[3, 2], epsilon=1, **SAID)
    yield lambda: pm.quantile(table, "c", [0.5], epsilon=1, **SAID)
