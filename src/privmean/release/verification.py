"""What anyone can check of a stored release, without the data and without believing its maker."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privmean.errors import ArgumentError, PrivmeanError
from privmean.output import count_noun, printable
from privmean.plain_data import parsed
from privmean.privacy.compose import delta_within, pure_epsilon, total_rho
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.ledger_charges import spent_of
from privmean.release.stored_release import PROVENANCE, digest_of, mapped, text
from privmean.release.verify_study import STUDY_KIND as STUDY
from privmean.release.verify_study import NumberChecks, asked_events, check_numbers, tried
from privmean.release.verify_study import problems_of as study_problems

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from privmean.privacy.ledger import Ledger
    from privmean.privacy.ledger_charges import LedgerEntry
    from privmean.privacy.privacy_events import PrivacyEvent
    from privmean.release.release import Release

CANNOT = (
    "that the records were those of the people named, and that noise was drawn as the accounting "
    "says: only the releaser knows",
    "that these people were in no other release: a ledger adds up all charges",
)
# numbers are bounded where they are read; should some yet be beyond arithmetic, that is a finding
BEYOND = (ArithmeticError, ValueError, TypeError, MemoryError, RecursionError)
MOST_LINES = 2**53  # of a ledger
BEYOND_ARITHMETIC = "the accounting cannot be composed: it has numbers that no mechanism has"
UNSIGNED = (
    "who made the digest: the file is not signed, and who changes a file can compute its digest "
    "again; compare it with one that was published elsewhere, or ask for a signed release"
)


@dataclass(frozen=True)
class Verification:
    """Result of `verify`; true if no problem was found.

    Attributes
    ----------
    checked : tuple of str
        What was checked and is right.
    problems : tuple of str
        What is wrong.
    cannot : tuple of str
        What no file can show.
    digest : str, optional
        Digest of the file.
    not_checked : tuple of str
        What the file states and nothing was compared with.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    found = pm.verify(pm.mean(people, epsilon=1.0))
    assert found and not found.problems
    print(found.describe())
    """

    checked: tuple[str, ...]
    problems: tuple[str, ...]
    cannot: tuple[str, ...]
    digest: str | None = None
    not_checked: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.problems

    def describe(self) -> str:
        """In words, a line each."""
        lines = ["verified" if self else "NOT VERIFIED"]
        for title, items in (
            ("wrong", self.problems),
            ("checked", self.checked),
            ("not checked", self.not_checked),
            ("cannot be checked from this file", self.cannot),
        ):
            lines += [f"{title}:", *(f"  - {item}" for item in items)] if items else []
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.describe()

    def to_dict(self) -> dict[str, Any]:
        return {
            "verified": bool(self),
            "problems": list(self.problems),
            "checked": list(self.checked),
            "not_checked": list(self.not_checked),
            "cannot_be_checked": list(self.cannot),
            "digest": self.digest,
        }


def verify(
    release: Release | Mapping[str, object] | str | os.PathLike[str],
    *,
    key: str | os.PathLike[str] | Ed25519PublicKey | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
) -> Verification:
    """Verify a stored release: accounting, numbers, digest and signature.

    Parameters
    ----------
    release : Release, dict or path
        A release, the result of its `to_dict`, or the path of its JSON.
    key : path or Ed25519PublicKey, optional
        Public key of the signer, or its PEM file.
    ledger : Ledger or path, optional
        Ledger that must hold the charge.

    Returns
    -------
    Verification
        True if nothing is wrong; `problems` names what is wrong.

    Raises
    ------
    ArgumentError
        If a file, key or ledger cannot be read.

    Privacy
    -------
    Reads no data. The accounting of a verified release composes to at most its guarantee. Without a
    key, a person who changed the release may have made a new digest.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    stored = pm.mean(people, epsilon=1.0).to_dict()
    assert pm.verify(stored)
    stored["estimate"][0] += 0.001
    assert pm.verify(stored).problems
    """
    public = key
    if isinstance(key, str | os.PathLike):
        from privmean.release.signing import public_key

        public = public_key(key)
    book = ledger
    if isinstance(book, str | os.PathLike):
        from privmean.privacy.ledger import Ledger

        book = Ledger.open(book)
    stored = _stored(release)
    if isinstance(stored, str):
        return Verification((), (f"the file is not JSON that is read alike by all: {stored}",), ())
    look = NumberChecks()
    try:
        own = digest_of(stored)
    except ValueError as error:
        own = None
        look.wrong(f"the release holds what JSON cannot: {error}")
    provenance = stored.get(PROVENANCE)
    if not isinstance(provenance, Mapping) or not provenance:
        look.wrong(
            "there is no provenance: this is no release, or an older privmean stored it; such a "
            "release is not bound to its accounting"
        )
        provenance = {}
    elif own is not None:
        if provenance.get("digest") == own:
            look.right(
                f"the digest fits: nothing was changed, added, removed or moved since it was made "
                f"({own})"
            )
        else:
            look.wrong("the digest does not fit: something was changed, added, removed or moved")
    guarantee = _promise(stored, look)
    if stored.get("kind") == STUDY:
        _study(stored, guarantee, look)
    else:
        check_numbers(stored, guarantee, look)
    _made(provenance, look)
    _signature(provenance, own, public, look)
    if book is not None:
        _charge(stored, provenance, guarantee, book, look)
    return Verification(
        _printable(look.found),
        _printable(look.problems),
        _printable([*look.cannot, *CANNOT]),
        own,
        _printable(look.left),
    )


def _printable(texts: Sequence[str]) -> tuple[str, ...]:
    """Texts that a screen can show as they are: a file's own words may hold anything, line ends and
    control characters included."""
    return tuple(map(printable, texts))


def _stored(release: object) -> dict[str, Any] | str:
    """The dictionary of a release; or why a file does not hold one."""
    if isinstance(release, str | os.PathLike):
        try:
            data = Path(release).read_bytes()
        except (OSError, ValueError) as error:  # a path with a null character is no path
            raise ArgumentError(
                "release",
                os.fspath(release),
                f"cannot be read: {getattr(error, 'strerror', None) or 'it is not a path'}",
                "give a file written by `privmean ... --json`",
            ) from None
        try:
            release = parsed(data)
        except ValueError as error:
            return str(error)
        if not isinstance(release, dict):
            return "it holds no object"
    elif hasattr(release, "to_dict"):
        release = release.to_dict()
    if not isinstance(release, Mapping):
        raise ArgumentError(
            "release", type(release).__name__, "is not a release", "give a release or its file"
        )
    return dict(release)


def _promise(stored: Mapping[str, Any], look: NumberChecks) -> Guarantee | None:
    """The guarantee, after its accounting was composed again."""
    try:
        guarantee = Guarantee.from_dict(stored.get("guarantee", {}))
        problems = guarantee.problems()
    except PrivmeanError as error:
        look.wrong(f"the guarantee cannot be read: {error}")
        return None
    except BEYOND:
        look.wrong(BEYOND_ARITHMETIC)
        return None
    for problem in problems:
        look.wrong(problem)
    if not problems:
        calls = len(guarantee.mechanisms)
        look.right(
            f"accounting: {count_noun(calls, 'mechanism call')}, every one counted for "
            f"{guarantee.neighbors} neighbors (unit: one {guarantee.unit}); "
            f"{_composed(guarantee)}"
        )
    return guarantee


def _composed(guarantee: Guarantee) -> str:
    """What the accounting comes to, and by which rule."""
    losses = guarantee.mechanisms
    if guarantee.rho is not None:
        return f"they compose to rho {total_rho(losses):.6g} of {guarantee.rho:g} (sums of rho)"
    assert guarantee.epsilon is not None
    pure = pure_epsilon(losses)
    if pure is not None and pure <= guarantee.budget().largest_pure_epsilon():
        return f"they compose to epsilon {float(pure):.6g} of {guarantee.epsilon:g} (exact sums)"
    found = delta_within(losses, guarantee.epsilon, guarantee.delta)
    assert found is not None  # verified above
    delta, rule = found
    return (
        f"they compose to delta {delta:.6g} of {guarantee.delta:g} at epsilon "
        f"{guarantee.epsilon:g} ({rule})"
    )


def _study(stored: Mapping[str, Any], guarantee: Guarantee | None, look: NumberChecks) -> None:
    """Every release of a study, and the accounting that they share."""

    left: dict[str, None] = {}

    def of_release(release: Mapping[str, Any]) -> list[str]:
        one = NumberChecks()
        try:
            said = release.get(PROVENANCE)
            if not isinstance(said, Mapping) or said.get("digest") != digest_of(release):
                one.wrong("the digest of its release does not fit")
        except ValueError as error:
            one.wrong(f"its release holds what JSON cannot: {error}")
        if isinstance(said, Mapping):
            _made(said, one)
        check_numbers(release, _promise(release, one), one)
        left.update(dict.fromkeys(one.left))
        return one.problems

    if guarantee is None:
        return
    before = len(look.problems)
    tried("the questions", lambda: study_problems(stored, guarantee, of_release), look)
    if len(look.problems) == before:
        count = len(stored["questions"])
        look.right(
            f"{count_noun(count, 'question')}: every release keeps its own lines of the "
            "accounting, and no line is left over; each is checked as a release, and says again "
            "what its question says"
        )
        look.left += [f"in its releases: {item}" for item in left]
        look.left.append(
            "of the study: its name, card and run, what was asked in words, weights and wanted "
            "errors, shares of the plan"
        )


def _made(provenance: Mapping[str, object], look: NumberChecks) -> None:
    """When, by what and against which charge."""
    if not provenance:
        return
    before = len(look.problems)
    tried("the provenance", lambda: _wrongly_made(provenance), look)
    if len(look.problems) > before:
        return
    stated: Mapping[str, Any] = provenance
    versions, engine, charge = stated["versions"], stated["engine"], stated["ledger"]
    version = f" {engine['version']}" if engine.get("version") else ""
    charged = "to no ledger" if charge is None else f"as line {charge['number']} of a ledger"
    look.right(
        f"self-declared: {stated['time']}, privmean {versions['privmean']}, OpenDP "
        f"{versions['opendp']}, engine {engine['name']}{version}, charged {charged}"
    )


def _wrongly_made(provenance: Mapping[str, object]) -> Iterator[str]:
    if datetime.fromisoformat(text(provenance.get("time"))).utcoffset() != timedelta(0):
        yield "the time is no time in UTC"
    versions, engine = mapped(provenance.get("versions")), mapped(provenance.get("engine"))
    for stated in (versions.get("privmean"), versions.get("opendp"), engine.get("name")):
        text(stated)
    if engine.get("version") is not None:
        text(engine["version"])
    charge = provenance.get("ledger", ...)
    if charge is not None and not _line(charge):
        yield "the charge is no line of a ledger"


def _line(charge: object) -> bool:
    return (
        isinstance(charge, Mapping)
        and type(charge.get("number")) is int
        and 0 < charge["number"] <= MOST_LINES
        and isinstance(charge.get("digest"), str)
    )


def _signature(
    provenance: Mapping[str, object], own: str | None, public: object, look: NumberChecks
) -> None:
    """The signature: by the owner of `public`, else by whoever it says."""
    signer, signature = provenance.get("signer"), provenance.get("signature")
    if signer is None and signature is None:
        if public is not None:
            look.wrong("it is not signed, though a key was given")
        else:
            look.cannot.append(UNSIGNED)
        return
    if not isinstance(signer, str) or not isinstance(signature, str):
        look.wrong("the signature, or the name of its key, was removed")
        return
    try:
        from privmean.release.signing import public_of, public_text, signature_fits

        said = public_of(signer)
    except ModuleNotFoundError:
        look.cannot.append("the signature: that needs the package cryptography (privmean[sign])")
        return
    if said is None or own is None or not signature_fits(signature, own, said):
        look.wrong("the signature does not fit the release")
    elif public is None:
        look.right(f"it is signed with the key {signer}")
        look.cannot.append(
            "whose key that is: anyone can make a key; give the public key that you trust (--key)"
        )
    elif public_text(public) != signer:
        look.wrong(f"it is signed with another key than the one given: {signer}")
    else:
        look.right(f"it is signed with the key given: {signer}")


def _charge(
    stored: Mapping[str, Any],
    provenance: Mapping[str, object],
    guarantee: Guarantee | None,
    book: Ledger,
    look: NumberChecks,
) -> None:
    """Whether the charge that a release names is in the ledger, and covers it; and what it was
    settled at, the mechanism calls that were asked."""
    charge = provenance.get("ledger")
    if not _line(charge):
        look.wrong("it names no charge, though a ledger was given")
        return
    assert isinstance(charge, Mapping)
    for entry in book.entries:
        if entry.number == charge["number"] and entry.digest == charge["digest"]:
            break
    else:
        look.wrong(f"line {charge['number']} of the ledger is not the charge that it names")
        return
    if guarantee is None:
        return
    if (entry.relation, entry.unit) != (guarantee.neighbors, guarantee.unit):
        look.wrong("it was charged for other neighbors or another unit")
    elif not entry.amount.covers(book.price(guarantee)):
        look.wrong(f"it was charged at {entry.amount.describe()}, less than its guarantee")
    elif entry.settlement is not None and not _covers_asked(stored, guarantee, entry, book):
        look.wrong(f"it was settled at {entry.counted.describe()}, less than what was asked")
    else:
        look.right(
            f"line {entry.number} of the ledger is its charge ({entry.describe()}, "
            f"{entry.label!r}, {entry.when})"
        )


def _covers_asked(
    stored: Mapping[str, Any], guarantee: Guarantee, entry: LedgerEntry, book: Ledger
) -> bool:
    """Whether a settled charge covers the calls of its release."""
    asked: Sequence[PrivacyEvent] = guarantee.mechanisms
    if stored.get("kind") == STUDY:
        try:
            asked = asked_events(stored, guarantee)
        except (PrivmeanError, KeyError, TypeError, IndexError, AttributeError):
            return False  # said above
    # other charges may have followed since
    spent = spent_of(book.total, entry, asked, alone=True)
    return spent is not None and entry.counted.covers(spent)
