"""A ledger's file on a full disk, or no file at all: all of it said in words."""

import os
import subprocess
import sys
import threading

import pytest

import privmean as pm
from privmean.errors import ArgumentError
from privmean.privacy.ledger import Ledger

TENTH = pm.Budget(epsilon=0.1)
RESERVED = 1 << 16
# runs a command line or a script while no file may grow beyond so many bytes, as `ulimit -f` does
LIMITED = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({RESERVED}, {RESERVED}))\n"
COMMAND = LIMITED + "import sys; from privmean.cli import main; main(sys.argv[1:])"


def charge(ledger, label="x"):
    return ledger.charge(TENTH, "replace-one", label=label)


@pytest.fixture
def book(tmp_path):
    """A ledger with one charge."""
    path = tmp_path / "team.ledger"
    charge(Ledger(path, epsilon=1.0), "one")
    return path


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "w.csv"
    pm.example("wages", str(path))
    return path


def limited(*arguments):
    return subprocess.run(
        [sys.executable, "-c", *arguments], capture_output=True, text=True, check=False
    )


# --- a full disk ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_command_on_a_full_disk_names_the_ledger_and_says_that_nothing_counted(book, table):
    whole = book.read_bytes()
    words = ["mean", table, "--person", "id", "--value", "ln_wage", "--epsilon", "0.5"]
    label = RESERVED * "l"  # an entry that does not fit
    done = limited(COMMAND, *map(str, words), "--label", label, "--ledger", str(book))
    assert done.returncode == 2
    assert done.stdout == ""
    for said in (str(book), "the disk is full", "does not count", "was not shown", "Make room"):
        assert said in done.stderr, done.stderr
    assert book.read_bytes() == whole
    charge(Ledger(book), "two")  # the disk has room again
    assert [entry.label for entry in Ledger(book).entries] == ["one", "two"]


def test_a_ledger_that_a_full_disk_cannot_hold_is_not_made(tmp_path):
    place = tmp_path / "new.ledger"
    name = RESERVED * "n"
    done = limited(
        COMMAND, "ledger", "create", str(place), "--epsilon", "1", "--limit", f"{name}=0.1"
    )
    assert done.returncode == 2
    assert "cannot be created (the disk is full" in done.stderr
    assert list(tmp_path.iterdir()) == []


# --- what is no file -----------------------------------------------------------------------------


def in_time(run, seconds=20.0):
    """What a call gives, which must not wait for ever."""
    found = []
    thread = threading.Thread(target=lambda: found.append(run()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, "still waiting"
    return found[0]


def no_files(folder):
    os.mkfifo(folder / "pipe")
    return {"/dev/full": "a device", "/dev/zero": "a device", folder / "pipe": "a pipe",
            folder: "a folder"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
def test_what_is_no_regular_file_is_refused_before_anything_is_read(tmp_path):
    def refused(make):
        try:
            return str(make())
        except ArgumentError as error:
            return str(error)

    words = ["--person", "id", "--value", "x", "--epsilon", "1", "--ledger"]
    for place, kind in no_files(tmp_path).items():
        said = [
            in_time(lambda at=place: refused(lambda: Ledger(at, epsilon=1.0))),
            in_time(lambda at=place: refused(lambda: Ledger.open(at))),
        ]
        # the table is not there: it was not looked for
        for line in (
            ["mean", tmp_path / "none.csv", *words, place],
            ["ledger", "show", place],
            ["ledger", "create", place, "--epsilon", "1"],
        ):
            done = subprocess.run(
                [sys.executable, "-m", "privmean", *map(str, line)],
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 2
            said.append(done.stderr)
        for text in said:
            assert f"{os.path.basename(place)}'" in text
            assert f"is {kind}" in text, text
            assert "Name a regular file" in text


def test_a_link_to_a_free_name_is_a_place_for_a_ledger(tmp_path):
    (tmp_path / "mounted").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "mounted" / "team.ledger")
    charge(Ledger(link, epsilon=1.0))
    assert (tmp_path / "mounted" / "team.ledger").is_file()
    assert link.is_symlink()
    assert len(Ledger.open(link).entries) == 1


def test_a_name_that_no_file_can_have_is_refused_in_words(tmp_path):
    (tmp_path / "file").touch()
    for name in (tmp_path / "file" / "below", "a\0b", tmp_path / (300 * "n")):
        for make in (lambda at=name: Ledger(at, epsilon=1.0), lambda at=name: Ledger.open(at)):
            with pytest.raises(ArgumentError, match="ledger=.*cannot be opened"):
                make()
