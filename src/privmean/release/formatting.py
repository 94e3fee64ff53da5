"""The one layout of every release: what stands in its title, table, notes and paragraphs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import NormalDist
from types import MappingProxyType

from privmean.inference.interval import DECLARED, Interval
from privmean.inference.status import FAILED, MODIFIED_TARGET, OK, find_status, read_status
from privmean.output import MISSING, Output, TableRow, count, decimals, number, percent, plural
from privmean.privacy.guarantee import MEMBERSHIP, RELATION_WORDS, Guarantee, privacy_text
from privmean.release.result_numbers import Plan, ResultNumbers
from privmean.release.stored_release import Provenance, Row, is_comparison

MOST = 3  # columns that are named in a title, and rows in `repr`
COLUMNS = ("estimate", "std err", "CI lower", "CI upper")
NOISE = ("noise lo", "noise hi")
RULE = "Each person counts in "  # how the rule of a release by group begins
NOISY = "The n of rows are noisy, too, and need not add up."
WIDER = 1.1  # half width over that of the standard error, above which a reader is told why
PLAIN = ("mean", "mean within bounds", "quantiles", "coefficients", "variance")  # as the title says


def drawn(release: ResultNumbers) -> str:
    """The pictures of a release, as SVG; only a page shows them."""
    from privmean.release.charts import pictures

    return "".join(pictures(release))


def output(release: ResultNumbers, warning: str, *, noise: bool = False) -> Output:
    """What `print(release)` shows. noise: with the interval of privacy noise only."""
    rows = release.rows()
    alarm = "" if release.secure else warning
    last = (("Method", f"{release.estimator}. Full record: release.details()"),)
    privacy = (
        ("Privacy", privacy_text(release.guarantee)),
        *charged(release.provenance, failed=bool(release.failed)),
    )
    if release.failed and all(math.isnan(row.estimate) for row in rows):
        why = capital(release.advice or find_status(FAILED).remedy).rstrip(".")
        failed = ((FAILED, f"{find_status(FAILED).message} {why}."),)
        return Output(
            f"{title(release)}: no estimate", people_text(release),
            paragraphs=(*failed, *privacy, *last), warning=alarm,
        )  # fmt: skip
    found = codes(rows)
    letters = letters_of(all_codes(release))
    return Output(
        title(release),
        sample=sample(release, found),
        columns=heads(rows, noise=noise),
        rows=table_rows(release, letters, noise=noise),
        notes=notes(
            letters,
            release.interval().target,
            {general_code(release): advice_of(release)},
            bounded=letters if release.takes_bounds else (),
        ),
        lines=(
            *(note for note in release.assumptions if note.startswith(RULE)),
            *noisy_counts(release),
            *release.footer(),
        ),
        paragraphs=(*privacy, ("Intervals", interval_text(release)), *last),
        warning=alarm,
        picture=lambda: drawn(release),
    )


def charged(made: Provenance, *, failed: bool = False) -> tuple[tuple[str, str], ...]:
    """What was charged to a ledger and what came back, where something did or all failed."""
    entry = made.entry or {}
    back = f", of which {entry['returned']} came back" if "returned" in entry else ""
    if "charged" not in entry or not (back or failed):
        return ()
    return (("Charged", f"{entry['charged']}{back or ', of which nothing came back'}."),)


def title(release: ResultNumbers) -> str:
    """What is estimated: the estimand, of columns that it does not name itself."""
    words = release.estimand.partition(", people ")[0]
    if words in ("mean", "clipped mean"):
        few = len(release.columns) <= MOST
        named = ", ".join(release.columns) if few else f"{len(release.columns)} columns"
        words = f"{words}{'' if len(release.columns) == 1 else 's'} of {named}"
    return capital(words)


def people_text(release: ResultNumbers) -> str:
    """How many people, and whether their number is public."""
    if release.n is None:
        return "n is not released"
    source = "public" if is_public(release) else "noisy"
    return f"n = {release.n:,} {plural(release.guarantee.unit)} ({source})"


def is_public(release: ResultNumbers) -> bool:
    """Whether its number of people is public: that of a roster is, not that of private groups."""
    promise = release.guarantee
    return promise.neighbors == "replace-one" and (
        not is_grouped(release) or MEMBERSHIP in promise.public
    )


def is_grouped(release: ResultNumbers) -> bool:
    return any(row.group for row in release.rows())


def sample(release: ResultNumbers, found: Sequence[str]) -> str:
    """People, their weights and the kind of the intervals."""
    _, stated, weights = release.estimand.partition(", people ")
    several = len(release.rows()) > 1
    intervals = f"{percent(release.level)} confidence interval{'s' if several else ''}"
    target = release.interval().target
    if target not in PLAIN and MODIFIED_TARGET not in found:
        intervals += f" for the {target}"
    joint = f", {release.joint_text()}" if several and release.joint_text() else ""
    weighting = f", {weights}" if stated else ""
    return f"{people_text(release)}{release.fitted_text()}{weighting}; {intervals}{joint}"


# --- the table -----------------------------------------------------------------------------------


def heads(rows: Sequence[Row], *, noise: bool) -> tuple[str, ...]:
    """The columns of the table: n where it varies by row."""
    more = ("n",) if has_counts(rows) else ()
    return (*COLUMNS, *(NOISE if noise else ()), *more)


def has_counts(rows: Sequence[Row]) -> bool:
    return len({row.n for row in rows if math.isfinite(row.n)}) > 1


def noisy_counts(release: ResultNumbers) -> tuple[str, ...]:
    """That the people of rows are counted with noise, where they are."""
    noisy = has_counts(release.rows()) and MEMBERSHIP not in release.guarantee.public
    return (NOISY,) if noisy else ()


def table_rows(
    release: ResultNumbers, letters: dict[str, str], *, noise: bool = False, name: str = ""
) -> tuple[TableRow, ...]:
    """One line per row, below headings of their parts. name: of a question, before its rows."""
    rows, made, own = release.rows(), [], set(release.columns)
    numbers = _cells(release, rows, noise=noise)
    names = release.labels()
    counted = has_counts(rows)
    several = len({row.term for row in rows}) > 1 and is_grouped(release)
    place = 0
    if name:
        made.append(TableRow(name))
    for (term, of_groups), part in groupby(rows, lambda row: _part(row, own)):
        found = list(part)
        kinds = [kind for kind in KINDS if kind in {_kind(row) for row in found}]
        words = [] if of_groups else [" and ".join(kinds)]
        heading = ": ".join([term] * several + words)
        if heading:
            made.append(TableRow(heading if several else capital(heading)))
        for row in found:
            cells = numbers[place]
            if counted:
                cells = (*cells, count(row.n) if of_groups else "")
            made.append(TableRow(names[place], cells, letters.get(code(row), "")))
            place += 1
    return tuple(made)


KINDS = ("differences", "ratios")


def _part(row: Row, own: set[str]) -> tuple[str, bool]:
    """The value of a row by group, and whether the row is a group, not a comparison."""
    if not row.group:
        return "", True
    return row.term, not is_comparison(row, own)


def _kind(row: Row) -> str:
    return KINDS[" / " in row.group]


def _cells(release: ResultNumbers, rows: Sequence[Row], *, noise: bool) -> list[tuple[str, ...]]:
    """The numbers of every row, with the decimals that its unit has."""
    errors = [std_error(row) for row in rows]
    units = [release.unit_of(row, place) for place, row in enumerate(rows)]
    least: dict[object, float] = {}
    for unit, error in zip(units, errors, strict=True):
        if 0 < error < least.get(unit, math.inf):
            least[unit] = error
    made = []
    for row, unit in zip(rows, units, strict=True):
        error = least.get(unit, math.nan)
        values = [row.estimate, row.std_error, row.lower, row.upper]
        values += [row.noise_lower, row.noise_upper] if noise else []
        places = decimals(error)
        made.append(tuple(number(value, places, error) for value in values))
    return made


def std_error(row: Row) -> float:
    """The standard error, or about what the interval says of it where none is stated."""
    if row.std_error > 0:
        return row.std_error
    widths = row.upper - row.lower, row.noise_upper - row.noise_lower
    return next((width / 4 for width in widths if 0 < width < math.inf), math.nan)


def study_output(
    name: str,
    parts: Sequence[tuple[str, ResultNumbers | None, str]],
    promise: Guarantee,
    kind: str,
    closing: Sequence[str],
    warning: str,
    made_by: Provenance,
) -> Output:
    """What is printed of the releases of a study: their rows in one table. parts: of each question
    its name, its release, its status. kind: of the intervals."""
    releases = [release for _, release, _ in parts if release is not None]
    counted = any(has_counts(release.rows()) for release in releases)
    found = [
        all_codes(release) if release is not None else [read_status(status, has_estimate=False)]
        for _, release, status in parts
    ]
    letters = letters_of(item for part in found for item in part)
    made: list[TableRow] = []
    for (name_, release, _), (first, *_) in zip(parts, found, strict=True):
        if release is None:
            cells = (MISSING,) * (len(COLUMNS) + counted)
            made += [TableRow(name_), TableRow(MISSING, cells, letters.get(first, ""))]
            continue
        lines = table_rows(release, letters, name=f"{name_}: {title(release)}")
        bare = counted and not has_counts(release.rows())
        made += [
            replace(line, cells=(*line.cells, "")) if line.cells and bare else line
            for line in lines
        ]
    targets = [release.interval().target for release in releases]
    bounded = {code for item in releases if item.takes_bounds for code in all_codes(item)}
    known = sorted(releases, key=is_public, reverse=True)  # a public number of people, if any
    return Output(
        f"Study: {name}" if name else "Study",
        sample=f"{people_text(known[0])}; {kind}" if known else "",
        columns=(*COLUMNS, *(["n"] if counted else [])),
        rows=tuple(made),
        notes=notes(letters, " or ".join(dict.fromkeys(targets)), bounded=bounded),
        lines=tuple(closing),
        paragraphs=(("Privacy", privacy_text(promise)), *charged(made_by)),
        warning=warning,
    )


# names of predicted errors in prints, in the order of their columns
ERRORS = {"rmse": "error", "sampling": "sampling", "noise": "noise", "privacy_noise": "noise"}


def plan_output(
    plan: Plan,
    said: str,
    predicted: Mapping[str, Mapping[str, float]],
    *,
    counts: Sequence[float] = (),
    statuses: Sequence[str] = (),
    lines: Sequence[str] = (),
    declared: Sequence[str] = (),
) -> Output:
    """What is printed of a plan. predicted: errors by name, of every row by its label. counts: n of
    every row; statuses: what is expected of it; declared: what is owed to types."""
    heads = list(dict.fromkeys(name for found in predicted.values() for name in found))
    heads.sort(key=[*ERRORS, *heads].index)
    letters = letters_of(map(read_status, statuses))
    rows = []
    for place, (label, found) in enumerate(predicted.items()):
        least = min((x for x in found.values() if 0 < x < math.inf), default=math.nan)
        cells = [number(found.get(name, math.nan), decimals(least), least) for name in heads]
        cells += [count(counts[place])] if counts else []
        note = letters.get(read_status(statuses[place]), "") if statuses else ""
        rows.append(TableRow(label, tuple(cells), note))
    return Output(
        f"Plan: {plan.estimator}",
        said,
        (*(ERRORS.get(name, name) for name in heads), *(["n"] if counts else [])),
        tuple(rows),
        notes(letters, "clipped mean"),
        tuple(lines),
        (*assumed_of(declared), ("Method", f"{plan.rationale}.")),
    )


def assumed_of(declared: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The paragraph of a plan about the types that it takes as public."""
    if not declared:
        return ()
    said = "; ".join(dict.fromkeys(declared))
    return (("Assumes", f"{said}. These types are public: none was chosen from the records."),)


# --- statuses ------------------------------------------------------------------------------------


def code(row: Row) -> str:
    """The code of the status of a row."""
    return read_status(row.status, math.isfinite(row.estimate))


def codes(rows: Iterable[Row]) -> list[str]:
    """The codes of rows that are not "ok", in the order of the rows."""
    return [item for item in dict.fromkeys(code(row) for row in rows) if item != OK]


def all_codes(release: ResultNumbers) -> list[str]:
    """Those of the rows, and what is said of the release as a whole."""
    return [*codes(release.rows()), general_code(release)]


def general_code(release: ResultNumbers) -> str:
    """What is said of the release, or of its interval, as a whole."""
    stated = release.status if release.status != OK else release.interval().status
    return read_status(stated, bool(release.answered))


def advice_of(release: ResultNumbers) -> str:
    """What is unusual about a release, or about its interval."""
    return release.advice if release.status != OK else release.interval().advice


def letters_of(found: Iterable[str]) -> dict[str, str]:
    """A letter for every code but "ok"."""
    kept = [item for item in dict.fromkeys(found) if item != OK]
    return {item: chr(ord("a") + place) for place, item in enumerate(kept)}


OPEN = "No closed interval for what you asked can be given. Raise epsilon or take logarithms."


def notes(
    letters: dict[str, str],
    target: str,
    advice: Mapping[str, str] = MappingProxyType({}),
    *,
    bounded: Collection[str] | None = None,
) -> tuple[tuple[str, str], ...]:
    """The footnotes of these codes. advice: what is unusual, by code. bounded: the codes that a
    question has which takes bounds; by default all."""
    known = letters if bounded is None else bounded
    texts = {
        item: find_status(item).text(f"the {target}", advice.get(item, ""), bounds=item in known)
        for item in letters
    }
    if MODIFIED_TARGET in texts and target in PLAIN:  # of groups: these rows have no ends
        texts[MODIFIED_TARGET] = f"{OPEN} {advice.get(MODIFIED_TARGET, '')}".rstrip()
    return tuple((letter, f"{item}: {texts[item]}") for item, letter in letters.items())


# --- assumptions ---------------------------------------------------------------------------------


def interval_text(release: ResultNumbers) -> str:
    """What intervals include, and what they assume; that there is none, where none has an end."""
    rows = release.rows()
    if not any(math.isfinite(end) for row in rows for end in (row.lower, row.upper)):
        return f"none. The estimate assumes (the guarantee does not): {assumption_text(release)}"
    found = "include sampling error and privacy noise"
    if any(row.std_error > 0 for row in rows):
        found += ", as std err does"
    if is_wider(release):
        found += ", and what clipping may hide: so they are wider than std err tells"
    return f"{found}. They assume (the guarantee does not): {assumption_text(release)}"


def is_wider(release: ResultNumbers) -> bool:
    """Whether some interval is wider than its standard error alone would make it."""
    least = 2 * WIDER * NormalDist().inv_cdf((1 + release.level) / 2)
    return any(least * row.std_error < row.upper - row.lower < math.inf for row in release.rows())


def assumption_text(release: ResultNumbers) -> str:
    """What accuracy assumes (never privacy), in short sentences."""
    brief = release.interval().short_assumption
    found = sentences([brief, *_declared(release)] if brief else assumed_in_full(release))
    return f"{'; '.join(found) or 'nothing but the noise'}."


def assumed_in_full(release: ResultNumbers) -> list[str]:
    """What accuracy assumes in full; what else is said of groups are rules of their rows."""
    found = release.interval().assumption
    return [found, *(_declared(release) if is_grouped(release) else release.assumptions)]


def rules_of_rows(release: ResultNumbers) -> list[str]:
    """Who counts in which row of a release by group, and what its rows depend on."""
    notes = release.assumptions if is_grouped(release) else ()
    return [note for note in notes if DECLARED not in note]


def _declared(release: ResultNumbers) -> list[str]:
    """What is owed to the types of columns."""
    return [note for note in release.assumptions if DECLARED in note]


def sentences(texts: Iterable[str]) -> list[str]:
    """Single assumptions, each once; those of columns are parted by "|"."""
    parts = (part for text in texts for item in text.split(" | ") for part in item.split("; "))
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


# --- in full -------------------------------------------------------------------------------------


def details(release: ResultNumbers, warning: str) -> Output:
    """The release in full, in the order of reading."""
    made = output(release, warning, noise=True)
    kept = [item for item in made.paragraphs if item[0] not in ("Intervals", "Method")]
    return Output(
        made.title, made.sample, made.columns, made.rows, made.notes, made.lines,
        (*kept, *_more(release)), made.warning,
    )  # fmt: skip


def _more(release: ResultNumbers) -> Iterator[tuple[str, str]]:
    interval, promise = release.interval(), release.guarantee
    yield "Interval", f"for the {interval.target}"
    yield "Assumes (accuracy only, not privacy)", _listed(sentences(assumed_in_full(release)))
    parts = release.parts_text()
    if parts:
        yield release.parts_title, _listed(parts)
    rules = rules_of_rows(release)
    if rules:
        yield "Rows", _listed(rules)
    bounds = [f"[{a:.6g}, {b:.6g}]" for a, b in interval.clip_bounds]
    if bounds:
        named = zip(release.columns, bounds, strict=True)
        alike = len(set(bounds)) == 1
        yield "Clipping bounds", bounds[0] if alike else _listed(f"{a}: {b}" for a, b in named)
    joint = release.joint_interval()
    if joint is not None and len(release.columns) > 1:
        name = f"Simultaneous {percent(interval.level)} intervals"
        yield name, _listed(_ends(release.columns, joint))
    yield "Neighboring datasets", RELATION_WORDS[promise.neighbors]
    if promise.public:
        yield "Public", "; ".join(promise.public)
    if release.shares:
        split = ", ".join(f"{name} {share:.0%}" for name, share in release.shares.items())
        yield "Budget split", split
    yield "Method", f"{release.estimator}: {release.plan.rationale}"
    yield (
        "Privacy accounting",
        _listed(
            f"{loss.name} ({loss.kind}): "
            + ", ".join(f"{name} {value:.4g}" for name, value in loss.summary().items())
            for loss in promise.mechanisms
        ),
    )
    if promise.note:
        yield "Note", promise.note


def _ends(names: Sequence[str], joint: Interval) -> Iterator[str]:
    for name, low, high in zip(names, joint.lower, joint.upper, strict=True):
        if not math.isnan(low):
            places = decimals((high - low) / 4)
            least = (high - low) / 4
            yield f"{name}: {number(low, places, least)} to {number(high, places, least)}"


def _listed(items: Iterable[str]) -> str:
    return "".join(f"\n{item}" for item in items) or "nothing"


def one_line(release: ResultNumbers) -> str:
    """The text of `repr(release)`."""
    rows = release.rows()
    cells = _cells(release, rows[:MOST], noise=False)
    shown = []
    for row, (estimate, _, lower, upper) in zip(rows[:MOST], cells, strict=True):
        name = f"{row.group} {row.term}".strip()
        ends = f"={estimate} [{lower}, {upper}]" if estimate != MISSING else f": {code(row)}"
        shown.append(f"{name}{ends}")
    left = len(rows) - len(shown)
    more = [f"{left} more"] if left else []
    said = [] if release.secure else ["SIMULATED"]
    parts = [*shown, *more, release.guarantee.describe(), release.estimator]
    parts = [*parts, general_code(release), *said]
    return f"{type(release).__name__}({', '.join(parts)})"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
