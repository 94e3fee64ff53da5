"""Of files as such: names of test modules, and no host of a network.

pytest imports test modules by base name: two of one name cannot be collected together. A
conftest.py apart: pytest keeps those of several folders asunder.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOST = re.compile(
    r"(?:https?|ftp|git|ssh)://(?!127\.0\.0\.1\b|a b|\{|\[::1\])[\w.-]*\w\.[a-z]{2,}[^\s)\"']*"
)

SVG = "http:" + "//www.w3.org/2000/svg"  # names the language of a picture; nothing is fetched


def test_module_names_of_the_tests_are_unique() -> None:
    names = Counter(path.name for path in Path(__file__).parent.rglob("*.py"))
    del names["conftest.py"]
    assert [name for name, times in names.items() if times > 1] == []


def test_committed_files_name_no_host_of_a_network() -> None:
    """The texts of the licence and addresses of the machine itself apart: what is fetched, and from
    where, is for the tools of whoever installs privmean."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:  # an unpacked source distribution
        names = [str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.py")]
    else:
        names = listed.stdout.decode().split("\0")[:-1]
    found = []
    for name in names:
        if name == "LICENSE" or not (ROOT / name).is_file():
            continue
        text = (ROOT / name).read_bytes().decode("utf-8", "ignore").replace(SVG, "")
        found += [f"{name}: {host}" for host in HOST.findall(text)]
    assert len(names) > 200
    assert found == []


def test_benchmarks_run_as_their_pages_say() -> None:
    """`python benchmarks/NAME.py` finds what it imports: nothing of the tests, unless it says where
    they are."""
    tests = {path.stem for path in (ROOT / "tests").rglob("*.py")} | {
        path.name for path in (ROOT / "tests").iterdir() if path.is_dir()
    }
    beside = {path.stem for path in (ROOT / "benchmarks").iterdir()}
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        text = path.read_text()
        named = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
        ours = set(named) & tests - beside - sys.stdlib_module_names
        assert not ours or "sys.path.insert" in text, path.name


def test_files_that_docstrings_and_pages_name_are_there():
    """A page that names the code of a proof, or a docstring its neighbor, goes stale in silence."""
    kept = {path.name for folder in ("src", "tests", "benchmarks", "docs", "examples")
            for path in (ROOT / folder).rglob("*.py")}  # fmt: skip
    told = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    named = {
        (path.name, name)
        for path in told
        for name in re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", path.read_text())
    }
    assert len(named) > 100
    assert [(page, name) for page, name in sorted(named) if name not in kept] == []
