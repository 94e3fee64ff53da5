"""A ledger's file on a full disk, cut in a line, or no file at all: all of it said in words."""

import json
import os
import subprocess
import sys
import threading

import pytest

import privmean as pm
from cli_runner import shell
from privmean.errors import ArgumentError, PrivmeanError
from privmean.privacy import ledger_log as journal
from privmean.privacy.ledger import Ledger

TENTH = pm.Budget(epsilon=0.1)
RESERVED = 1 << 10
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


def test_a_command_on_a_full_disk_names_the_ledger_and_says_that_nothing_counted(book, table):
    whole = book.read_bytes()
    words = ["mean", table, "--person", "id", "--value", "ln_wage", "--epsilon", "0.5"]
    label = RESERVED * "l"  # an entry that does not fit
    done = limited(COMMAND, *map(str, words), "--label", label, "--ledger", str(book))
    assert done.returncode == 2
    assert done.stdout == ""
    told = ("the disk is full", "does not count", "Nothing was released", "Make room")
    for said in (str(book), *told):
        assert said in done.stderr, done.stderr
    assert book.read_bytes() == whole
    charge(Ledger(book), "two")  # the disk has room again
    assert [entry.label for entry in Ledger(book).entries] == ["one", "two"]


def test_a_full_disk_in_python_is_an_error_of_the_library(book):
    whole = book.read_bytes()
    done = limited(
        LIMITED + "import sys, privmean as pm\n"
        "ledger = pm.Ledger(sys.argv[1])\n"
        "try:\n"
        f"    ledger.charge(pm.Budget(0.1), 'replace-one', label={RESERVED} * 'l')\n"
        "except pm.PrivmeanError as error:\n"
        "    print(error, ledger.left().describe())\n",
        str(book),
    )
    assert f"{book}: the disk is full. This charge does not count" in done.stdout, done.stderr
    assert "epsilon=0.9" in done.stdout
    assert book.read_bytes() == whole


def test_a_ledger_that_a_full_disk_cannot_hold_is_not_made(tmp_path):
    place = tmp_path / "new.ledger"
    limits = [word for k in range(20) for word in ("--limit", f"analyst {k}/month=0.1")]
    done = limited(COMMAND, "ledger", "create", str(place), "--epsilon", "1", *limits)
    assert done.returncode == 2
    assert "cannot be made: the disk is full. Make room" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_nor_is_it_where_files_have_one_name_only(tmp_path, monkeypatch):
    def no_links(*_):
        raise PermissionError

    written = []

    def once(file, data):
        written.append(data)
        if len(written) > 1:
            os.write(file.fileno(), data[:9])
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(journal, "_write", once)
    with pytest.raises(ArgumentError, match="the disk is full"):
        Ledger(tmp_path / "book", epsilon=1.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", [0, 1, 9, None])
def test_what_a_failed_write_left_is_taken_back(book, monkeypatch, part):
    """Also where all of the line was written and only the flush failed."""
    ledger, whole = Ledger(book), book.read_bytes()

    def failing(file, data):
        os.write(file.fileno(), data[:part])
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(journal, "_write", failing)
    with pytest.raises(PrivmeanError, match=r"Input/output error\. This charge does not count"):
        charge(ledger, "lost")
    assert book.read_bytes() == whole
    monkeypatch.undo()
    charge(ledger, "two")
    assert [entry.label for entry in Ledger(book).entries] == ["one", "two"]


def test_where_nothing_can_be_taken_back_it_is_not_known(book, monkeypatch):
    ledger = Ledger(book)

    def failing(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(journal, "_write", failing)
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(
        PrivmeanError, match="`privmean ledger show` shows whether this charge counts"
    ):
        charge(ledger, "lost")


# --- a line that is cut off ----------------------------------------------------------------------


@pytest.mark.filterwarnings("default")
def test_a_cut_entry_is_said_by_commands_that_change_nothing(book):
    charge(Ledger(book), "two")
    kept = len(book.read_bytes().splitlines(keepends=True)[0]) + len(
        book.read_bytes().splitlines(keepends=True)[1]
    )
    cut = book.read_bytes()[: kept + 40]
    book.write_bytes(cut)
    for words in (["show"], ["show", "--json"], ["check"], ["plan", "--epsilon", "0.9"]):
        done = shell("ledger", words[0], book, *words[1:])
        assert done.exit_code == 0
        assert f"{book}: line 3, the last entry, is cut off after 40 bytes" in done.stderr
        assert "does not count" in done.stderr
        assert done.stderr.count("cut off") == 1
        assert book.read_bytes() == cut
    found = json.loads(shell("ledger", "show", book, "--json").stdout)
    assert (found["cut_off"], len(found["entries"])) == (40, 1)
    assert "40 bytes of one more entry" in shell("ledger", "check", book).stdout


@pytest.mark.filterwarnings("default")
def test_a_cut_entry_is_said_where_it_is_charged_over(book, table):
    whole = book.read_bytes()
    book.write_bytes(whole + b'{"bytes": 900, "number": 2')
    words = ["--person", "id", "--value", "ln_wage", "--epsilon", "0.5", "--ledger", book]
    done = shell("mean", table, *words)
    assert done.exit_code == 0
    assert "line 3, the last entry, is cut off" in done.stderr
    assert book.read_bytes().startswith(whole)
    again = shell("ledger", "show", book, "--json")
    assert again.stderr == ""
    found = json.loads(again.stdout)
    assert (found["cut_off"], len(found["entries"])) == (0, 2)


def test_a_line_without_its_end_is_not_mended_by_reading(book):
    whole = book.read_bytes()
    book.write_bytes(whole[:-1])
    ledger = Ledger(book)
    assert [entry.label for entry in ledger.entries] == ["one"]
    assert ledger.cut_off == 0
    assert book.read_bytes() == whole[:-1]
    charge(ledger, "two")
    assert book.read_bytes().startswith(whole)
    assert [entry.label for entry in Ledger(book).entries] == ["one", "two"]


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


# --- limits on the command line ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "limit", "form"),
    [
        (["--epsilon", "1"], "*/month=2,1e-6,3", "EPSILON[,DELTA]"),
        (["--epsilon", "1"], "*/month=", "EPSILON[,DELTA]"),
        (["--rho", "1"], "*/month=0.1,1e-6", "=RHO"),
    ],
)
def test_a_limit_of_more_numbers_than_it_has_is_refused(tmp_path, budget, limit, form):
    done = shell("ledger", "create", tmp_path / "b.ledger", *budget, "--limit", limit)
    assert done.exit_code == 2
    assert "--limit" in done.stderr
    assert form in done.stderr
    assert list(tmp_path.iterdir()) == []
