"""Wrong uses of the command line and of Python, graded by a rule.

good: refused before anything is read or charged; the text names the argument, its value or what is
missing, and says what to do (or, for a right use that looks odd, a release). fair: refused, but the
text lacks one of the two. bad: answered or charged, a traceback, or more than 300 characters.
needs a staged charge: what is wrong is known only from private values of a text file, so that it
cannot be refused before the charge.

    python benchmarks/wrong_uses.py [--show]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import privmean as pm
import report
from privmean.cli.app import run
from privmean.noise.noise_source import SimulatedNoise

RESULTS = Path(__file__).parent / "results" / "wrong_uses.json"
PEOPLE, EACH = 600, 3
LONGEST = 300
GOOD, FAIR, BAD, STAGED = "good", "fair", "bad", "needs a staged charge"
GRADES = (GOOD, FAIR, BAD, STAGED)
REFUSED, RIGHT, PRIVATE = "refused", "right", "private"


@dataclass(frozen=True)
class Use:
    """One use. named: words of which the text must have one; kind: what is expected."""

    where: str
    name: str
    ask: Callable[[Any], object] | list[str]
    named: tuple[str, ...]
    kind: str = REFUSED


@dataclass(frozen=True)
class Graded:
    where: str
    name: str
    grade: str
    charged: int
    text: str


def columns() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(PEOPLE), EACH)
    return {
        "id": who,
        "y": rng.integers(0, 20, who.size) / 2,
        "x": rng.normal(size=who.size).round(2),
        "g": np.where(who % 2, "north", "south"),
        "k": who % 3,
        "t": np.tile(np.arange(EACH), PEOPLE),
    }


def texts(folder: Path) -> None:
    """Files that a use is about, each wrong in one way."""
    data = columns()
    frame = pl.DataFrame(data)
    frame.write_csv(folder / "t.csv")
    frame.write_parquet(folder / "t.parquet")
    frame.write_ndjson(folder / "t.jsonl")
    names = list(data)
    for name, cell in {
        "text": lambda v: "low" if v < 5 else "high",
        "dates": lambda v: f"2020-01-{int(v) + 1:02d}",
        "dollars": lambda v: f"${v}",
        "percent": lambda v: f"{v}%",
        "yesno": lambda v: "yes" if v > 5 else "no",
        "thousands": lambda v: f'"1,{int(v):03d}"',
    }.items():
        rows = zip(*(data[c] if c != "y" else map(cell, data["y"]) for c in names), strict=True)
        lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    day = pl.Series([f"20{10 + i}-01-01" for i in data["t"]])
    frame.with_columns(t=day).write_csv(folder / "days.csv")
    whole = (folder / "t.csv").read_text()
    (folder / "blanks.csv").write_text(whole.replace("id,y", "id, y", 1))
    (folder / "semicolon.csv").write_text(whole.replace(",", ";"))
    (folder / "bare.csv").write_text(whole.partition("\n")[2])
    (folder / "utf16.csv").write_bytes(whole.encode("utf-16"))
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 40)
    (folder / "empty.csv").write_text("")
    (folder / "head.csv").write_text(whole.partition("\n")[0] + "\n")
    (folder / "one.csv").write_text("\n".join(whole.split("\n")[:2]) + "\n")
    frame.clear().write_parquet(folder / "empty.parquet")
    (folder / "damaged.parquet").write_bytes((folder / "t.parquet").read_bytes()[:900])
    frame.with_columns(y=pl.lit("a")).write_parquet(folder / "text.parquet")
    for ending in ("xlsx", "sav", "rds", "feather", "pkl", "dta", "noending"):
        (folder / f"t.{ending}").write_bytes(b"\x00\x01")
    (folder / "t").write_bytes(b"\x00\x01")
    (folder / "array.json").write_text(json.dumps(frame.head(900).to_dicts()))
    (folder / "nothing").mkdir()


BASE = ["--person", "id", "--value", "y", "--epsilon", "1", "--bounds", "0", "20"]


def mean(file: str = "t.csv", *more: str, drop: str = "") -> list[str]:
    said = list(BASE)
    if drop:
        at = said.index(drop)
        said = said[:at] + said[at + (3 if drop == "--bounds" else 2) :]
    return ["mean", file, *said, *more]


def swap(option: str, value: str, file: str = "t.csv", *more: str) -> list[str]:
    return mean(file, option, value, *more, drop=option)


LINES: list[tuple[str, list[str], tuple[str, ...]]] = [
    ("typo of the person", swap("--person", "idd"), ("--person", "idd")),
    ("typo of the value", swap("--value", "yy"), ("--value", "yy")),
    ("capital letter in the value", swap("--value", "Y"), ("--value", "'Y'")),
    ("typo with a header", swap("--value", "yy", "t.csv", "--header"), ("yy",)),
    ("typo in Parquet", swap("--value", "yy", "t.parquet"), ("yy",)),
    ("blank before a name", mean("blanks.csv"), ("--value",)),
    ("no header", mean("bare.csv"), ("--person",)),
    ("semicolons", mean("semicolon.csv"), ("--person",)),
    ("UTF-16", mean("utf16.csv"), ("encoding", "utf")),
    ("binary", mean("binary.csv"), ("--person", "encoding")),
    ("no person", mean(drop="--person"), ("--person",)),
    ("no value", mean(drop="--value"), ("--value",)),
    ("no epsilon", mean(drop="--epsilon"), ("--epsilon",)),
    ("negative epsilon", swap("--epsilon", "-1"), ("--epsilon",)),
    ("epsilon as text", swap("--epsilon", "one"), ("--epsilon",)),
    ("epsilon with a comma", swap("--epsilon", "1,0"), ("--epsilon",)),
    ("epsilon nan", swap("--epsilon", "nan"), ("--epsilon",)),
    ("epsilon 0", swap("--epsilon", "0"), ("--epsilon",)),
    ("delta 0.5", mean("t.csv", "--delta", "0.5"), ("--delta",)),
    ("negative delta", mean("t.csv", "--delta", "-0.1"), ("--delta",)),
    ("epsilon and rho", mean("t.csv", "--rho", "1"), ("--rho",)),
    ("level 95", mean("t.csv", "--level", "95"), ("--level",)),
    ("level 0", mean("t.csv", "--level", "0"), ("--level",)),
    ("neighbors unknown", mean("t.csv", "--neighbors", "both"), ("--neighbors",)),
    ("bounds reversed", [*mean(drop="--bounds"), "--bounds", "20", "0"], ("--bounds",)),
    ("bounds with one number", [*mean(drop="--bounds"), "--bounds", "20"], ("--bounds",)),
    ("bounds as text", [*mean(drop="--bounds"), "--bounds", "a", "b"], ("--bounds",)),
    ("bounds with a comma", [*mean(drop="--bounds"), "--bounds", "0,20"], ("--bounds",)),
    ("missing file", mean("gone.csv"), ("gone.csv",)),
    ("folder without tables", mean("nothing"), ("nothing",)),
    ("xlsx", mean("t.xlsx"), ("xlsx",)),
    ("sav", mean("t.sav"), ("sav",)),
    ("rds", mean("t.rds"), ("rds",)),
    ("feather", mean("t.feather"), ("feather",)),
    ("pkl", mean("t.pkl"), ("pkl",)),
    ("dta", mean("t.dta"), ("dta",)),
    ("no ending", mean("t"), ("source", "file type", "table")),
    ("SQL text", mean("SELECT * FROM t"), ("SELECT",)),
    ("s3", mean("s3://bucket/t.csv"), ("s3",)),
    ("https", mean("https:" + "//example.org/t.csv"), ("https",)),
    ("postgresql without table", mean("postgresql://localhost/db"), ("--table", "table")),
    ("JSON array", mean("array.json"), ("person", "record")),
    ("damaged Parquet", mean("damaged.parquet"), ("damaged.parquet",)),
    ("text in Parquet", mean("text.parquet"), ("'y'",)),
    ("empty file", mean("empty.csv"), ("empty.csv", "person", "header")),
    ("no records", mean("head.csv"), ("person", "n=0", "record")),
    ("empty Parquet", mean("empty.parquet"), ("person", "n=0", "record")),
    ("one person", mean("one.csv"), ("n=1",)),
    ("groups without keys or delta", mean("t.csv", "--by", "g", drop="--bounds"), ("keys",)),
    ("keys without by", mean("t.csv", "--keys", "a,b"), ("--keys",)),
    ("contrast without spaces", mean("t.csv", "--by", "g", "--keys", "north,south", "--contrast",
     "north-south", drop="--bounds"), ("--contrast",)),
    ("contrast of other keys", mean("t.csv", "--by", "g", "--keys", "north,south", "--contrast",
     "north - east", drop="--bounds"), ("--contrast",)),
    ("typo of by", mean("t.csv", "--by", "gg", "--keys", "north,south", drop="--bounds"),
     ("--by", "gg")),
    ("keys in a missing file", mean("t.csv", "--by", "g", "--keys-file", "no.txt",
     drop="--bounds"), ("no.txt",)),
    ("bounds of groups", mean("t.csv", "--by", "g", "--keys", "north,south"), ("--bounds",)),
    ("unknown command", ["maen", "t.csv"], ("maen",)),
    ("unknown option", mean("t.csv", "--epsilom", "1"), ("--epsilom",)),
    ("groupby", mean("t.csv", "--groupby", "g"), ("--groupby",)),
    ("lower and upper", mean("t.csv", "--lower", "0", "--upper", "20"), ("--lower",)),
    ("seed", mean("t.csv", "--seed", "1"), ("--seed",)),
    ("alpha", mean("t.csv", "--alpha", "0.05"), ("--alpha",)),
    ("columns", mean("t.csv", "--columns", "y"), ("--columns",)),
    ("value as a position", ["mean", "t.csv", "y", "--person", "id", "--epsilon", "1"], ("'y'",)),
    ("two values after one option", mean("t.csv", "--value", "y", "x"), ("'x'",)),
    ("typo of the method", mean("t.csv", "--method", "winsorised"), ("--method",)),
    ("setting of the method", mean("t.csv", "--method", "default targt=mean"), ("targt",)),
    ("typo of the estimand", mean("t.csv", "--estimand", "person"), ("--estimand",)),
    ("missing ledger", mean("t.csv", "--ledger", "gone.ledger"), ("gone.ledger",)),
    ("picture of another type", ["quantile", "t.csv", "--person", "id", "--value", "y",
     "--epsilon", "1", "--plot", "a.gif"], ("--plot",)),
    ("sign without json", mean("t.csv", "--sign", "key.pem"), ("--sign",)),
    ("quantiles of 100", ["quantile", "t.csv", "--person", "id", "--value", "y", "--epsilon",
     "1", "--q", "25,50,75"], ("--q",)),
    ("quantiles in no order", ["quantile", "t.csv", "--person", "id", "--value", "y",
     "--epsilon", "1", "--q", "0.5,0.25"], ("--q",)),
    ("formula with =", ["regress", "t.csv", "y = x", "--person", "id", "--epsilon", "1"],
     ("formula",)),
    ("formula with C(g)", ["regress", "t.csv", "y ~ C(g)", "--person", "id", "--epsilon", "1"],
     ("C(g)",)),
    ("formula with log", ["regress", "t.csv", "y ~ np.log(x)", "--person", "id", "--epsilon",
     "1"], ("log",)),
    ("formula with the person", ["regress", "t.csv", "y ~ id", "--person", "id", "--epsilon",
     "1"], ("formula", "id")),
    ("formula without text", ["regress", "t.csv", "--person", "id", "--epsilon", "1"],
     ("formula",)),
    ("bins in no order", ["curve", "t.csv", "--person", "id", "--value", "y", "--time", "t",
     "--bins", "3,2,1", "--epsilon", "1"], ("--bins",)),
    ("curve without bins", ["curve", "t.csv", "--person", "id", "--value", "y", "--time", "t",
     "--epsilon", "1"], ("--bins",)),
    ("compare without arms", ["compare", "t.csv", "--person", "id", "--value", "y", "--epsilon",
     "1"], ("--arms",)),
    ("plan without people", ["plan", "--epsilon", "1"], ("--n", "--persons")),
    ("bounds in other units", [*mean(drop="--bounds"), "--bounds", "1000", "2000"], ("--bounds",)),
]  # fmt: skip

# what only private values of a text file show
VALUES: list[tuple[str, list[str]]] = [
    *((f"{name} in CSV", mean(f"{name}.csv")) for name in
      ("text", "dates", "dollars", "percent", "yesno", "thousands")),
    ("a text column of CSV", swap("--value", "g")),
    ("keys of another spelling", mean("t.csv", "--by", "g", "--keys", "North,South",
     drop="--bounds")),
    ("keys of another type", mean("t.csv", "--by", "k", "--keys", "0.5,1.5",
     drop="--bounds")),
    ("arms of text", ["compare", "t.csv", "--person", "id", "--value", "y", "--arms", "g",
     "--epsilon", "1"]),
    ("numeric bins of dates", ["curve", "days.csv", "--person", "id", "--value", "y", "--time",
     "t", "--bins", "2010,2011,2012", "--bounds", "0", "20", "--epsilon", "1"]),
]  # fmt: skip


def python_uses() -> list[Use]:
    data = columns()
    frame, panda = pl.DataFrame(data), pd.DataFrame(data)
    table = pm.Table(frame, person="id")
    array = np.asarray(frame.group_by("id").agg(pl.col("y").mean())["y"])
    limits = {"bounds": (0, 20), "epsilon": 1.0}

    def use(name: str, ask: Callable[[Any], object], *named: str, kind: str = REFUSED) -> Use:
        return Use("Python", name, ask, named, kind)

    def with_(name: str, *named: str, source: Any = table, value: Any = "y", **more: Any) -> Use:
        said = {**limits, **more}
        return use(name, lambda led: pm.mean(source, value, ledger=led, **said), *named)

    def right(name: str, source: Any, value: Any = "y", **more: Any) -> Use:
        said = {**limits, "noise": SimulatedNoise(1), **more}
        return use(name, lambda led: pm.mean(source, value, ledger=led, **said), kind=RIGHT)

    group = {"by": "g", "keys": ["north", "south"], "bounds": None}
    return [
        with_("typo of the value", "'yy'", value="yy"),
        with_("typo of the person", "'idd'", source=panda, person="idd"),
        with_("no person", "person", source=panda),
        with_("value of text", "'g'", value="g"),
        use("no epsilon", lambda led: pm.mean(table, "y", ledger=led), "epsilon"),
        with_("negative epsilon", "epsilon", epsilon=-1),
        with_("epsilon of text", "epsilon", epsilon="1"),
        with_("epsilon True", "epsilon", epsilon=True),
        with_("epsilon and rho", "rho", rho=1),
        with_("delta 0.5", "delta", delta=0.5),
        with_("delta with rho", "delta", epsilon=None, rho=1, delta=1e-6),
        with_("level 95", "level", level=95),
        with_("n_guess under replace-one", "n_guess", n_guess=5),
        with_("neighbors unknown", "neighbors", neighbors="both"),
        with_("seed", "seed", seed=1),
        with_("random_state", "random_state", random_state=1),
        with_("groupby", "groupby", groupby="g"),
        with_("alpha", "alpha", alpha=0.05),
        with_("confidence", "confidence", confidence=0.95),
        with_("lower and upper", "lower", lower=0, upper=1),
        with_("range", "range", range=(0, 1)),
        with_("typo of a keyword", "epsilom", epsilom=1),
        with_("keyword of no function", "zzz", zzz=1),
        with_("bounds of one number", "bounds", bounds=5),
        with_("bounds reversed", "bounds", bounds=(20, 0)),
        with_("bounds equal", "bounds", bounds=(1, 1)),
        with_("bounds infinite", "bounds", bounds=(0, float("inf"))),
        with_("bounds of text", "bounds", bounds=("a", "b")),
        with_("bounds and concentration", "bounds", concentration=pm.SubGaussian(sd=1)),
        with_("assume of text", "assume", bounds=None, assume="x"),
        with_("assume a class", "assume", bounds=None, assume=pm.SubGaussian),
        with_("method of no name", "method", method="magic"),
        with_("method a class", "method", method=pm.WinsorizedMean),
        with_("contrasts without spaces", "contrasts", **group, contrasts="north-south"),
        with_("contrasts of other keys", "contrasts", **group, contrasts="north - east"),
        with_("keys without by", "keys", keys=[1, 2]),
        with_("by without keys", "keys", bounds=None, by="g"),
        with_("by a typo", "'gg'", bounds=None, by="gg", keys=[1]),
        with_("keys twice", "keys", bounds=None, by="g", keys=["north", "north"]),
        with_("keys empty", "keys", bounds=None, by="g", keys=[]),
        with_("keys of numbers for text", "keys", bounds=None, by="g", keys=[1, 2]),
        with_("max_groups 0", "max_groups", **group, max_groups=0),
        with_("membership unknown", "membership", **group, membership="open"),
        with_("estimand unknown", "estimand", estimand="rows"),
        with_("records without a limit", "cap", "max_records", estimand="records"),
        use("ledger of a number", lambda _: pm.mean(table, "y", ledger=1, **limits), "ledger"),
        use("ledger that does not exist", lambda _: pm.mean(table, "y", **limits,
            ledger="gone.ledger"), "gone.ledger"),
        use("ledger too small", lambda _: pm.mean(array, ledger=pm.Ledger(epsilon=0.5), **limits),
            "epsilon"),
        use("noise of a seed", lambda led: pm.mean(array, noise=1, ledger=led, **limits), "noise"),
        use("too few people", lambda led: pm.mean(array[:50], epsilon=1, ledger=led), "n=50"),
        use("no people", lambda led: pm.mean(array[:0], epsilon=1, ledger=led), "person", "n=0"),
        use("three dimensions", lambda led: pm.mean(np.ones((2, 2, 2)), epsilon=1, ledger=led),
            "source"),
        use("complex numbers", lambda led: pm.mean(array + 1j, epsilon=1, ledger=led), "complex"),
        use("array of text", lambda led: pm.mean(np.array(["a"] * 900), epsilon=1, ledger=led),
            "numbers"),
        use("list of files", lambda led: pm.mean(["a.csv", "b.csv"], "y", person="id", epsilon=1,
            ledger=led), "source"),
        use("xlsx", lambda led: pm.mean("t.xlsx", "y", person="id", epsilon=1, ledger=led),
            "xlsx"),
        use("question of text", lambda led: pm.ask(table, "mean", epsilon=1, ledger=led),
            "question"),
        use("question class", lambda led: pm.ask(table, pm.Mean, epsilon=1, ledger=led),
            "question"),
        use("quantiles of 100", lambda led: pm.quantile(table, "y", (25, 50), epsilon=1,
            ledger=led), "q="),
        use("quantile 1.0", lambda led: pm.quantile(table, "y", 1.0, epsilon=1, ledger=led),
            "q="),
        use("quantiles in no order", lambda led: pm.quantile(table, "y", (0.5, 0.25), epsilon=1,
            ledger=led), "q="),
        use("bins in no order", lambda led: pm.curve(table, "y", time="t", bins=[3, 2, 1],
            epsilon=1, ledger=led), "bins"),
        use("formula with C(g)", lambda led: pm.regress(table, "y ~ C(g)", epsilon=1, ledger=led),
            "C(g)"),
        use("formula with a text column", lambda led: pm.regress(table, "y ~ g", epsilon=1,
            ledger=led), "'g'"),
        use("effect unknown", lambda led: pm.regress(table, "y ~ x", effect="fixed", epsilon=1,
            ledger=led), "effect"),
        use("negative weights", lambda led: pm.regress(table, "y ~ x", weights=-1, epsilon=1,
            ledger=led), "weights"),
        use("arms of text", lambda led: pm.compare(table, "y", arms="g", epsilon=1, ledger=led),
            kind=PRIVATE),
        use("compare without arms", lambda led: pm.compare(table, "y", epsilon=1, ledger=led),
            "arms"),
        use("plan without a question", lambda _: pm.plan("mean", n=9, epsilon=1),
            "question"),
        use("old name of a class", lambda _: pm.Winsorized, "WinsorizedMean"),
        use("index with several levels", lambda led: pm.mean(panda.set_index(["id", "t"]), "y",
            person="id", epsilon=1, ledger=led), "'id'"),
        right("nullable integers", panda.astype({"y": "Float64", "id": "Int64"}), person="id"),
        right("categories of ids", frame.with_columns(id=pl.col("id").cast(pl.String)
              .cast(pl.Categorical)), person="id"),
        right("Arrow table", frame.to_arrow(), person="id"),
        right("lazy frame", frame.lazy(), person="id"),
        right("path of pathlib", Path("t.parquet"), person="id"),
    ]  # fmt: skip


def uses() -> list[Use]:
    lines = [Use("shell", name, line, named) for name, line, named in LINES]
    lines += [Use("shell", name, line, (), PRIVATE) for name, line in VALUES]
    return lines + python_uses()


def tried(item: Use, folder: Path) -> tuple[str, int, bool]:
    """What the use says, how often it was charged, and whether it was refused."""
    if isinstance(item.ask, list):
        path = folder / f"{abs(hash(item.name))}.ledger"
        ledger = pm.Ledger(path, epsilon=100)
        line = item.ask if "--ledger" in item.ask else [*item.ask, "--ledger", str(path)]
        if item.ask[0] in ("plan", "maen"):
            line = item.ask
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run(line)
        return (err.getvalue() or out.getvalue()).strip(), len(ledger.entries), status == 2
    ledger = pm.Ledger(epsilon=100)
    try:
        found = item.ask(ledger)
    except (pm.PrivmeanError, AttributeError) as error:
        return str(error), len(ledger.entries), True
    except Exception as error:  # a traceback for the user
        return f"Traceback: {type(error).__name__}: {error}", len(ledger.entries), False
    return f"answered: {found!r}"[:200], len(ledger.entries), False


def graded(item: Use, folder: Path) -> Graded:
    text, charged, refused = tried(item, folder)
    said = text.removeprefix("privmean: ")
    if item.kind == RIGHT:
        grade = GOOD if charged == 1 and not refused else BAD
    elif item.kind == PRIVATE and charged:
        grade = STAGED
    elif not refused or charged or "Traceback" in said or len(said) > LONGEST:
        grade = BAD
    else:
        remedy = len([part for part in said.replace("? ", ". ").split(". ") if part]) > 1
        named = not item.named or any(word in said for word in item.named)
        grade = GOOD if remedy and named else FAIR
    return Graded(item.where, item.name, grade, charged, text)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--show", action="store_true", help="print every text")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as place:
        folder, home = Path(place), Path.cwd()
        texts(folder)
        os.chdir(folder)
        try:
            found = [graded(item, folder) for item in uses()]
        finally:
            os.chdir(home)
    counts = {
        where: Counter(item.grade for item in found if item.where == where)
        for where in ("shell", "Python")
    }
    rows = [[where, *(count[grade] for grade in GRADES)] for where, count in counts.items()]
    rows.append(["all", *(sum(count[grade] for count in counts.values()) for grade in GRADES)])
    print(report.table(["where", *GRADES], rows))
    for item in found:
        if given.show or item.grade != GOOD:
            print(f"{item.grade:6} {item.where}: {item.name}: {item.text[:LONGEST]}")
    RESULTS.write_text(json.dumps({"uses": [asdict(item) for item in found]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
