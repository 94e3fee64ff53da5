"""Counts what a maintainer has to read: lines by folder and kind, and how often one idea occurs.

    python benchmarks/size.py            # prints one table, writes benchmarks/results/size.json

Every line of a source file gets one kind, from the syntax tree, in this order: docstring, import,
class head, signature, field, forwarding, protocol, argument check, text, constant, closing bracket,
blank or comment; the rest is logic. Only the standard library is used. The trip of a default mean
runs in a process of its own, which imports privmean from this checkout.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results" / "size.json"
KINDS = (
    "logic", "checks", "texts", "fields", "signatures", "constants", "brackets", "imports",
    "docstrings", "blank",
)  # fmt: skip
# bodies that only say in words or plain data what an object is
TEXTS = {
    "describe", "rationale", "public", "shape", "to_dict", "facts", "summary", "details", "counted",
    "what_moved", "__str__", "__repr__", "words",
}  # fmt: skip
CHECKS = re.compile(r"_?(check|require|validate|refuse)")
LONG = 12  # characters of a string that counts as text
FIRST, SECOND = 1, 2

TRIP = """
import json, os, sys
import privmean as pm
root, data = os.path.dirname(pm.__file__), pm.example("nlswork")
def mean(epsilon):
    str(pm.mean(pm.Table(data, person="person_id"), "ln_wage", epsilon=epsilon,
                noise=pm.SimulatedNoise(1)))
def plan(epsilon):
    pm.plan(pm.Mean("ln_wage"), n=4000, epsilon=epsilon)
def trip(ask):
    ask(2.0)  # modules are loaded; what is kept for equal public facts does not serve the next one
    files, functions, seen = set(), set(), {"moves": 0, "last": "", "depth": 0, "deepest": 0}
    def follow(frame, event, arg):
        name = frame.f_code.co_filename
        if not name.startswith(root):
            return
        if event == "call":
            files.add(os.path.relpath(name, root))
            functions.add((name, frame.f_code.co_qualname))
            seen["moves"] += seen["last"] != name
            seen["last"] = name
            seen["depth"] += 1
            seen["deepest"] = max(seen["deepest"], seen["depth"])
        elif event == "return":
            seen["depth"] -= 1
    sys.setprofile(follow)
    ask(1.0)
    sys.setprofile(None)
    return {"files": sorted(files), "functions": len(functions), "moves": seen["moves"],
            "deepest": seen["deepest"]}
print(json.dumps(trip(mean) | {"plan": trip(plan)["files"]}))
"""


# --- lines by kind --------------------------------------------------------------------------------


def kinds_of(text: str) -> Counter[str]:
    """How many lines of a module are of each kind."""
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    kinds: dict[int, str] = {}

    def mark(kind: str, first: int, last: int | None) -> None:
        for number in range(first, (last or first) + 1):
            kinds.setdefault(number, kind)

    tree = ast.parse(text)
    for kind, first, last in sorted(_marks(tree), key=lambda item: item[0]):
        mark(kind.split(" ")[1], first, last)
    found: Counter[str] = Counter()
    for number, line in enumerate(lines, FIRST):
        bare = line.strip()
        kind = kinds.get(number, "logic")
        if not bare or (kind != "docstrings" and bare.startswith("#")):
            kind = "blank"
        elif kind == "logic" and re.fullmatch(r"[\])}\s,:]+", bare):
            kind = "brackets"
        elif kind == "logic" and _is_text(bare):
            kind = "texts"
        found[kind] += 1
    return found


def _is_text(bare: str) -> bool:
    """Whether a line begins with a string that is long enough to be words."""
    start = re.match(r"[rf]?([\"'])(.*?)(\1|$)", bare)
    return bool(start and len(start[SECOND]) > LONG)


def _marks(tree: ast.Module) -> Iterator[tuple[str, int, int | None]]:
    """(rank and kind, first line, last line); the rank says which kind wins."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            head = node.body[0] if node.body else None
            if isinstance(head, ast.Expr) and _string(head.value):
                yield "0 docstrings", head.lineno, head.end_lineno
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield "1 imports", node.lineno, node.end_lineno
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield "1 imports", node.lineno, node.end_lineno
        if isinstance(node, ast.ClassDef):
            yield from _of_class(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_function(node)
        if isinstance(node, ast.Raise):
            yield "6 checks", node.lineno, node.end_lineno
        if isinstance(node, ast.If) and all(isinstance(item, ast.Raise) for item in node.body):
            yield "6 checks", node.lineno, node.body[-1].end_lineno
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func)
            if called.startswith("validate.") or CHECKS.match(called.rsplit(".", 1)[-1]):
                yield "6 checks", node.lineno, node.end_lineno
    for item in tree.body:
        if isinstance(item, ast.Assign | ast.AnnAssign):
            yield "8 constants", item.lineno, item.end_lineno


def _of_class(node: ast.ClassDef) -> Iterator[tuple[str, int, int | None]]:
    start = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    yield "2 fields", start, node.body[0].lineno - 1 if node.body else node.lineno
    if any("Protocol" in ast.unparse(base) for base in node.bases):
        yield "5 fields", node.lineno, node.end_lineno
    for item in node.body:
        if isinstance(item, ast.Assign | ast.AnnAssign):
            yield "4 fields", item.lineno, item.end_lineno


def _of_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[str, int, int | None]]:
    start = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    body = [item for item in node.body if not (isinstance(item, ast.Expr) and _string(item.value))]
    first = (body or node.body)[0]
    yield "3 signatures", start, max(node.lineno, first.lineno - 1)
    if node.name == "__post_init__" or CHECKS.match(node.name):
        yield "6 checks", first.lineno, node.end_lineno
    elif node.name in TEXTS:
        yield "7 texts", first.lineno, node.end_lineno
    elif len(body) == 1 and isinstance(first, ast.Return) and _plain(first.value):
        yield "4 fields", first.lineno, first.end_lineno  # forwards to something else


def _plain(value: ast.expr | None) -> bool:
    """An expression without an operator, a condition or a loop."""
    if value is None:
        return True
    busy = (
        ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.ListComp, ast.DictComp, ast.SetComp,
        ast.GeneratorExp, ast.UnaryOp, ast.Lambda,
    )  # fmt: skip
    return not any(isinstance(item, busy) for item in ast.walk(value))


def _string(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


# --- ideas ----------------------------------------------------------------------------------------


def statuses() -> set[str]:
    """The statuses that docs/statuses.md names: in its headings and in first cells of its table."""
    page = (ROOT / "docs" / "statuses.md").read_text().splitlines()
    cells = [line.split("|")[FIRST] for line in page if line.startswith("|")]
    found = {name for cell in cells for name in re.findall(r"[\[`]([a-z_ ]+)[\]`]", cell)}
    heads = (re.sub(r"[#`]", "", line).split(",") for line in page if line.startswith("##"))
    found |= {name.strip() for line in heads for name in line}
    return {name for name in found if re.fullmatch(r"[a-z_ ]+", name)} - {"ok"}


def _defines_status(tree: ast.Module, names: set[str]) -> bool:
    """Whether a name of the module is given the text of a status."""
    for item in tree.body:
        if isinstance(item, ast.Assign | ast.AnnAssign) and item.value is not None:
            value = item.value
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
            if any(isinstance(part, ast.Constant) and part.value in names for part in parts):
                return True
    return False


def _methods(trees: dict[str, ast.Module], name: str) -> tuple[int, int]:
    """Classes that write a method of this name by hand, and files that define it at all."""
    classes, files = 0, set()
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                files.add(path)
            if isinstance(node, ast.ClassDef):
                classes += any(
                    isinstance(item, ast.FunctionDef) and item.name == name for item in node.body
                )
    return classes, len(files)


def _calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func).rsplit(".", 1)[-1]


def _numbers(tree: ast.Module) -> int:
    """Named numeric constants of a module."""
    return sum(
        isinstance(part, ast.Constant) and type(part.value) in (int, float)
        for item in tree.body
        if isinstance(item, ast.Assign | ast.AnnAssign) and item.value is not None
        for part in (item.value.elts if isinstance(item.value, ast.Tuple) else [item.value])
    )


# counts of people in public cells, from which a column is located; and where they are made
CELLS = {"log_counts", "uniform_counts", "pair_counts", "shell_counts", "octaves_of"}
GIVERS = {"people", "data", "auditing", "local", "collector"}


def concepts(trees: dict[str, ast.Module], texts: dict[str, str], trip: dict) -> dict[str, object]:
    """How many files, classes or functions there are of each idea that should be there once."""
    names = statuses()
    stems = Counter(Path(path).stem for path in trees if Path(path).stem != "__init__")
    found: dict[str, object] = {
        "files one default mean runs through": len(trip["files"]),
        "files one plan of it runs through": len(trip["plan"]),
        "functions one default mean runs through": trip["functions"],
        "moves between files of one default mean": trip["moves"],
        "deepest call of one default mean": trip["deepest"],
        "named numbers in those files": sum(_numbers(trees[path]) for path in trip["files"]),
        "files that search for where a column lies": sum(
            bool(CELLS & set(_calls(tree)))
            for path, tree in trees.items()
            if path.split("/")[0] not in GIVERS
        ),
        "files that define an interval": _methods(trees, "interval")[1],
        "files that define statuses": sum(_defines_status(tree, names) for tree in trees.values()),
        "statuses of the page": len(names | {"ok"}),
        "files that write durably (fsync or SQLite)": sum(
            bool(re.search(r"\bos\.fsync\(|\bsqlite3\.connect\(|_durable\(", text))
            for text in texts.values()
        ),
        "named numbers": sum(map(_numbers, trees.values())),
        "classes": sum(isinstance(x, ast.ClassDef) for t in trees.values() for x in ast.walk(t)),
        "functions": sum(
            isinstance(x, ast.FunctionDef | ast.AsyncFunctionDef)
            for tree in trees.values()
            for x in ast.walk(tree)
        ),
        "file names used twice or more": sum(number > 1 for number in stems.values()),
    }
    for name in ("describe", "rationale", "events", "shares", "plan", "run", "interval", "to_dict"):
        found[f"classes that write {name}"] = _methods(trees, name)[0]
    return found


def trip_of() -> dict:
    """The files and functions that a default mean runs through, once modules are loaded."""
    paths = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", TRIP], capture_output=True, text=True, check=True, env=paths
    )
    return json.loads(done.stdout)


# --- the table ------------------------------------------------------------------------------------


def lines_of(files: Iterable[Path]) -> dict[str, int]:
    texts = [path.read_text(errors="replace") for path in files]
    return {"files": len(texts), "lines": sum(len(text.splitlines()) for text in texts)}


def words_of(folder: Path) -> dict[str, int]:
    files = sorted(folder.rglob("*.md"))
    return {"files": len(files), "words": sum(len(path.read_text().split()) for path in files)}


def measure() -> dict[str, object]:
    source = ROOT / "src" / "privmean"
    texts = {
        path.relative_to(source).as_posix(): path.read_text()
        for path in sorted(source.rglob("*.py"))
    }
    folders: dict[str, Counter[str]] = {}
    for name, text in texts.items():
        folder = name.split("/")[0] if "/" in name else "(top level)"
        counted = folders.setdefault(folder, Counter())
        counted.update(kinds_of(text))
        counted["files"] += 1
    total: Counter[str] = Counter()
    for item in folders.values():
        item["lines"] = sum(item[kind] for kind in KINDS)
        total.update(item)
    longest = sorted(len(text.splitlines()) for text in texts.values())
    trees = {name: ast.parse(text) for name, text in texts.items()}
    docs = words_of(ROOT / "docs")
    proofs = words_of(ROOT / "docs" / "proofs")
    ordered = sorted(folders.items(), key=lambda item: -item[1]["lines"])
    return {
        "source": {name: _row(item) for name, item in ordered},
        "total": _row(total),
        "file_lines": {
            "median": longest[len(longest) // 2],
            "p90": longest[len(longest) * 9 // 10],
            "largest": longest[-1],
        },
        "tests": lines_of(sorted((ROOT / "tests").rglob("*.py"))),
        "benchmarks": lines_of(sorted((ROOT / "benchmarks").rglob("*.py"))),
        "docs": {
            "files": docs["files"] - proofs["files"],
            "words": docs["words"] - proofs["words"],
        },
        "proofs": proofs,
        "concepts": concepts(trees, texts, trip_of()),
    }


def _row(item: Counter[str]) -> dict[str, int]:
    return {name: item[name] for name in ("files", "lines", *KINDS)}


def shown(found: dict) -> str:
    """One table: a row per folder, then what is counted otherwise."""
    header = ["folder", "files", "lines", *KINDS]
    rows = [[name, *map(str, row.values())] for name, row in found["source"].items()]
    rows.append(["total", *map(str, found["total"].values())])
    wide = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]

    def put(row: list[str]) -> str:
        numbers = (cell.rjust(width) for cell, width in zip(row[1:], wide[1:], strict=True))
        return "  ".join([row[0].ljust(wide[0]), *numbers])

    lines = [put(row) for row in [header, *rows]]
    lines.append("")
    for name in ("tests", "benchmarks", "docs", "proofs"):
        parts = ", ".join(f"{number:,} {what}" for what, number in found[name].items())
        lines.append(f"{name}: {parts}")
    shape = found["file_lines"]
    lines.append("lines per source file: " + ", ".join(f"{n} {v}" for n, v in shape.items()))
    lines.append("")
    lines += [f"{value:>7,}  {name}" for name, value in found["concepts"].items()]
    return "\n".join(lines)


def changes(before: dict, now: dict, path: str = "") -> Iterator[str]:
    """Every number that is not what it was."""
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) or isinstance(new, dict):
            yield from changes(old or {}, new or {}, f"{path}{name}: ")
        elif old != new:
            yield f"{path}{name}: {old} -> {new}"


def main() -> int:
    options = argparse.ArgumentParser(description="Count lines by kind, and ideas.")
    options.add_argument("--compare", action="store_true", help="show changes, write nothing")
    options.add_argument("--trip", action="store_true", help="only list the files of a mean")
    options.add_argument("--output", type=Path, default=RESULTS)
    asked = options.parse_args()
    if asked.trip:
        print(json.dumps(trip_of(), indent=1))
        return 0
    found = measure()
    if asked.compare:
        before = json.loads(asked.output.read_text()) if asked.output.exists() else {}
        print("\n".join(changes(before, found)) or "nothing changed")
        return 0
    print(shown(found))
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
