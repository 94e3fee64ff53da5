"""Ledgers of privmean 0.2, in lines of JSON: converted with every charge, or refused."""

import hashlib
import json
import os
import threading
import warnings
from types import SimpleNamespace

import pytest

import privmean as pm
from cli_runner import shell
from privmean.errors import ArgumentError, PrivmeanWarning
from privmean.storage.older_logs import CHAIN_START, OlderLog, line_of, lines_of

FIRST = {"schema": "privmean-ledger-2", "total": {"epsilon": 1.0, "delta": 0.0}}
LABELS = ["one", "two", "größer"]


def charged(label):
    return {
        "label": label, "spent": {"epsilon": "1/10", "delta": "0"}, "relation": "replace-one",
        "unit": "person", "when": "2026-01-01T00:00:00", "mechanisms": [],
    }  # fmt: skip


def written(path, labels=LABELS):
    """A ledger as 0.2 wrote it; the digests of its charges."""
    digest, text, digests = CHAIN_START, "", []
    for number, entry in enumerate([FIRST, *map(charged, labels)]):
        line, digest = line_of(digest, number, entry)
        text += line + "\n"
        digests.append(digest)
    path.write_text(text)
    return digests[1:]


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "team.ledger"
    written(path)
    return path


def labels(path):
    """What a ledger remembers; None if it is refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivmeanWarning)
            return [entry.label for entry in pm.Ledger(path, epsilon=1.0).entries]
    except ArgumentError:
        return None


def kept(data):
    """What the converter finds in a file of these bytes."""
    try:
        found = lines_of(SimpleNamespace(read_bytes=lambda: bytes(data)))
    except OlderLog:
        return None
    return None if found is None else [json.loads(item)["label"] for item in found.entries[1:]]


def charge(ledger, label="x"):
    return ledger.charge(pm.Budget(0.1), "replace-one", label=label)


def test_charges_keep_numbers_and_digests_and_the_ledger_goes_on(book):
    digests = written(book)
    with pytest.warns(PrivmeanWarning, match="0.2 with 3 charges was converted") as said:
        ledger = pm.Ledger(book, epsilon=1.0)
    assert len(said) == 1
    made = charge(ledger)
    again = pm.Ledger.open(book)  # without a warning
    assert [entry.digest for entry in again.entries] == [*digests, made.digest]
    assert [entry.number for entry in again.entries] == [1, 2, 3, 4]
    assert [entry.label for entry in again.entries] == [*LABELS, "x"]
    assert again.left().epsilon == pm.Ledger(epsilon=0.6).left().epsilon
    with pytest.raises(ArgumentError, match="must match the total"):
        pm.Ledger(book, epsilon=2.0)


def test_commands_convert_and_say_so_once(book):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert "3 charges was converted" in shell("ledger", "show", book).stderr
        assert shell("ledger", "show", book).stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="the mode of a file is a thing of POSIX")
def test_who_might_use_it_may_use_it(book):
    book.chmod(0o660)
    if os.getuid() == 0:
        os.chown(book, 1001, 1002)
    before = book.stat()
    assert labels(book) == LABELS
    after = book.stat()
    assert after.st_mode == before.st_mode
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)


def test_a_cut_last_line_is_left_out_wherever_it_was_cut(book, tmp_path):
    whole = book.read_bytes()
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    cut = len(whole) - 2
    book.write_bytes(whole[:cut])
    with pytest.warns(PrivmeanWarning, match=f"Line 4, the last .*off after {cut - start} bytes"):
        ledger = pm.Ledger(book)
    charge(ledger, "next")
    assert labels(book) == [*LABELS[:2], "next"]
    book.write_bytes(whole[:-1])  # all of the line but its end: it may have counted
    (tmp_path / "team.ledger-wal").unlink(missing_ok=True)
    assert labels(book) == LABELS


def test_no_single_bit_can_make_a_charge_vanish(book):
    """Every bit of a file of three charges, the last line end included: refused, or not changed."""
    whole = book.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            assert kept(damaged) in (None, LABELS), (place, bit)
    for byte in set(range(256)) - {ord("\n")}:
        book.write_bytes(whole[:-1] + bytes([byte]))
        assert labels(book) is None
        assert book.read_bytes() == whole[:-1] + bytes([byte]), "it must stay as evidence"


def test_a_file_cut_anywhere_is_an_older_one_or_is_refused(book):
    """Cut inside the first line nothing is left of the total, and it is no new ledger either."""
    whole = book.read_bytes()
    ends = [place for place, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole)):
        complete = sum(end <= cut for end in ends) - 1  # lines without their end too
        assert kept(whole[:cut]) == (None if complete < 0 else LABELS[:complete]), cut
    book.write_bytes(whole[:40])
    assert labels(book) is None
    assert book.read_bytes() == whole[:40]


@pytest.mark.parametrize("line", [0, 1, 2])
def test_any_other_damage_is_refused(book, line):
    lines = book.read_bytes().splitlines(keepends=True)
    damages = {
        "changed": [*lines[:line], lines[line].replace(b"1", b"2", 1), *lines[line + 1 :]],
        "removed": lines[:line] + lines[line + 1 :],
        "blank": [*lines[:line], b"\n", *lines[line + 1 :]],
        "zeros": [*lines[:line], b"\0" * 20 + b"\n", *lines[line + 1 :]],
        "repeated": [*lines[: line + 1], *lines[line:]],
    }
    for data in damages.values():
        book.write_bytes(b"".join(data))
        with pytest.raises(ArgumentError, match=r"damaged or was changed in line \d|is not a"):
            pm.Ledger(book)
        assert book.read_bytes() == b"".join(data)


def test_a_ledger_of_the_first_version_is_read_and_continued(book):
    """Its lines state no length; a whole one with a damaged line end is refused all the same."""

    def line(before, entry):
        text = json.dumps(entry, sort_keys=True)
        digest = hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()
        return json.dumps({**entry, "digest": digest}).encode(), digest

    total = {"epsilon": 1.0, "delta": 0.0}
    first, digest = line(CHAIN_START, {"number": 0, "schema": "privmean-ledger-1", "total": total})
    bill = {"name": "sum", "sensitivity": "1", "scale": "10", "spread": 1, "joint": False,
            "mechanism": "discrete Laplace", "loss": {"epsilon": 0.1}}  # fmt: skip
    second, digest = line(digest, {"number": 1, **charged("old"), "mechanisms": [bill]})
    whole = first + b"\n" + second + b"\n"
    for cut in range(len(first) + 2, len(whole) - 1):
        assert kept(whole[:cut]) == []
    for byte in set(range(256)) - {ord("\n")}:
        assert kept(whole[:-1] + bytes([byte])) in (None, ["old"])  # a space there is no harm
    book.write_bytes(whole[:-1])
    assert labels(book) == ["old"]
    charge(pm.Ledger(book), "new")
    assert labels(book) == ["old", "new"]
    assert pm.Ledger(book).left().epsilon == pm.Ledger(epsilon=0.8).left().epsilon


@pytest.mark.filterwarnings("ignore:.*was converted")
def test_many_threads_and_processes_convert_it_once(book):
    numbers = []

    def work():
        numbers.append(charge(pm.Ledger(book)).number)

    child = os.fork()
    for _ in range(3):
        threads = [threading.Thread(target=work)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if not child:
        os._exit(len(numbers))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert [entry.number for entry in pm.Ledger(book).entries] == list(range(1, 10))


def test_a_process_of_0_2_that_waits_for_the_file_charges_nothing(book):
    """It opened the file and waits for its lock; the file that it gets then is damaged for it."""
    with book.open("rb") as waiting:
        assert labels(book) == LABELS
        assert waiting.read().endswith(b"}\nconverted\n")
