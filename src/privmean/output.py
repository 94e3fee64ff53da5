"""What is printed: a title, a table, notes and paragraphs; as text, HTML, Markdown and LaTeX.

Every print of the library is an `Output`, so that all of them look alike. Cells are text already;
their decimal points are aligned here. Lines of text have at most `WIDTH` columns: a wider table is
parted into blocks of columns, and only a label that leaves no room for one is shortened.

A number and what is counted, as a text says them: 1 column, 2 columns; people of a person.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


def count_noun(number: int, noun: str) -> str:
    """The number with the noun, in the plural where they are several."""
    return f"{number} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """The word for several, in a print."""
    return "people" if noun == "person" else f"{noun}s"


def count_phrase(number: int, noun: str, one: str, several: str) -> str:
    """The same with the verb: 1 person is, 2 people are."""
    return f"{count_noun(number, noun)} {one if number == 1 else several}"


WIDTH = 80
MISSING = "-"
MOST_DECIMALS = 6
LONGEST = 14  # characters of a number that is written with a decimal point
GAP = "  "
LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip
NEGATIVE = re.compile(r"-(?=[\d.]|inf)")


@dataclass(frozen=True)
class TableRow:
    """A label, its cells and the letter of its footnote. Without cells: a heading of the rows that
    follow."""

    label: str
    cells: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Output:
    """warning: in front of all. sample: below the title. columns: heads of the cells. notes: mark
    and text of each footnote; one without a mark stands by itself. lines: sentences below the
    table. paragraphs: name and text; lines of a text that has several are indented. picture: makes
    the SVG that goes with the table in HTML."""

    title: str
    sample: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[TableRow, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    lines: tuple[str, ...] = ()
    paragraphs: tuple[tuple[str, str], ...] = ()
    warning: str = ""
    picture: Callable[[], str] = str

    def __post_init__(self) -> None:
        """Names of columns and groups may hold any signs, and reach every text but the cells."""
        for name in ("title", "sample"):
            object.__setattr__(self, name, printable(getattr(self, name)))
        object.__setattr__(self, "lines", tuple(map(_clean, self.lines)))
        for name in ("notes", "paragraphs"):
            pairs = tuple((head, _clean(text)) for head, text in getattr(self, name))
            object.__setattr__(self, name, pairs)

    def text(self) -> str:
        """At most 80 columns a line."""
        notes = [line for mark, text in self.notes for line in _note(mark, text)]
        closing = [line for text in self.lines for line in wrapped(text)]
        for name, text in self.paragraphs:
            first, *others = text.split("\n")
            closing += wrapped(f"{name}: {first}" if first else f"{name}:")
            closing += [line for item in others for line in wrapped(f"  {item}", "    ")]
        head = [f"*** {self.warning} ***"] if self.warning else []
        head += [line for text in (self.title, self.sample) if text for line in wrapped(text)]
        blocks = (head, self._table(), notes, closing)
        return "\n\n".join("\n".join(block) for block in blocks if block)

    def _table(self) -> list[str]:
        """The table in as many blocks of columns as the width needs."""
        if not self.rows:
            return []
        cells = aligned([row.cells for row in self.rows], len(self.columns))
        sizes = [
            max(len(head), *(len(row[j]) for row in cells if row), 0)
            for j, head in enumerate(self.columns)
        ]
        marks = max(len(row.note) for row in self.rows)
        room = WIDTH - (len(GAP) + marks if marks else 0)
        names = [printable(row.label) for row in self.rows]
        most = room - len(GAP) - max(sizes, default=0)
        total = room - sum(size + len(GAP) for size in sizes)
        wide = max(len(name) for name, own in zip(names, cells, strict=True) if own)
        # of labels that leave no room: as much as goes with all columns, if that is half of them
        wide = min(wide, most, total if total >= min(wide, 16) else most)
        lines: list[str] = []
        for block in _blocks(sizes, room - wide):
            heads = [self.columns[j].rjust(sizes[j]) for j in block]
            lines += [""] if lines else []
            lines.append(GAP.join([" " * wide, *heads]).rstrip())
            for row, name, own in zip(self.rows, names, cells, strict=True):
                if not own:
                    lines.append(shortened(name, WIDTH))
                    continue
                shown = [own[j].rjust(sizes[j]) for j in block]
                line = GAP.join([shortened(name, wide).ljust(wide), *shown, row.note])
                lines.append(line.rstrip())
        return lines

    def html(self) -> str:
        """For a notebook: no script, and colors of the text around, so that it reads on light and
        dark grounds."""
        from html import escape

        cells = [[cell or "&nbsp;" for cell in map(escape, row.cells)] for row in self.rows]
        noted = any(row.note for row in self.rows)
        span = len(self.columns) + 1 + noted
        body = []
        for row, own in zip(self.rows, cells, strict=True):
            name = escape(printable(row.label))
            if not own:
                body.append(f'<tr><th colspan="{span}" style="text-align:left">{name}</th></tr>')
                continue
            numbers = "".join(f'<td style="text-align:right">{cell}</td>' for cell in own)
            note = f"<td><i>{escape(row.note)}</i></td>" if noted else ""
            body.append(f'<tr><th style="text-align:left">{name}</th>{numbers}{note}</tr>')
        heads = "".join(
            f'<th style="text-align:right">{escape(head)}</th>' for head in self.columns
        )
        heads += "<th></th>" if noted else ""
        table = f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(body)}</tbody>"
        parts = [f"<p><b>{escape(self.warning)}</b></p>"] if self.warning else []
        parts.append(f"<p><b>{escape(self.title)}</b><br>{escape(self.sample)}</p>")
        parts += [f"{table}</table>"] if self.rows else []
        parts.append(self.picture())
        parts += [
            f"<p>{'<br>'.join(escape(text) for text in block)}</p>"
            for block in (
                [f"{mark} {text}".strip() for mark, text in self.notes],
                self.lines,
            )
            if block
        ]
        parts += [
            f"<p><b>{escape(name)}:</b> {escape(text).replace(chr(10), '<br>')}</p>"
            for name, text in self.paragraphs
        ]
        style = "color:inherit;background:transparent"
        return f'<div class="privmean" style="{style}">{"".join(parts)}</div>'

    def markdown(self) -> str:
        """A pipe table with what stands around it."""
        noted = any(row.note for row in self.rows)
        width = len(self.columns) + noted
        lines = [f"**{marked(self.warning)}**", ""] if self.warning else []
        lines += [f"**{marked(self.title)}**", ""]
        lines += [marked(self.sample), ""] if self.sample else []
        if self.rows:
            heads = [*self.columns, *([""] if noted else [])]
            lines.append(f"| | {' | '.join(map(marked, heads))} |")
            lines.append(f"|---|{'---:|' * width}")
            for row in self.rows:
                cells = [*row.cells, *([row.note] if noted else [])] if row.cells else [""] * width
                lines.append(f"| {marked(printable(row.label))} | {' | '.join(cells)} |")
            lines.append("")
        for item in [f"{mark} {text}".strip() for mark, text in self.notes] + list(self.lines):
            lines += [marked(item), ""]
        for name, text in self.paragraphs:
            lines += [f"**{name}**: {marked(text)}".replace("\n", "  \n"), ""]
        return "\n".join(lines).strip()

    def latex(self) -> str:
        """A table environment that needs no package."""
        noted = any(row.note for row in self.rows)
        width = len(self.columns) + noted
        heads = [*map(_tex, self.columns), *([""] if noted else [])]
        lines = [r"\begin{table}", rf"\caption{{{_tex(self.title)}. {_tex(self.sample)}}}"]
        lines += [rf"\textbf{{{_tex(self.warning)}}}", ""] if self.warning else []
        if self.rows:
            lines += [rf"\begin{{tabular}}{{l{'r' * width}}}", r"\hline"]
            lines += [f" & {' & '.join(heads)} \\\\", r"\hline"]
            for row in self.rows:
                name = _tex(printable(row.label))
                if not row.cells:
                    lines.append(rf"\multicolumn{{{width + 1}}}{{l}}{{{name}}} \\")
                    continue
                cells = [NEGATIVE.sub("$-$", cell) for cell in row.cells]
                lines.append(f"{' & '.join([name, *cells, *([row.note] if noted else [])])} \\\\")
            lines += [r"\hline", r"\end{tabular}"]
        texts = [f"{mark} {text}".strip() for mark, text in self.notes]
        texts += [*self.lines, *(f"{name}: {text}" for name, text in self.paragraphs)]
        lines += [line for text in texts for line in ("", _tex(text))]
        return "\n".join([*lines, r"\end{table}"])


class HasOutput:
    """What is shown by its `Output`: printed, in a notebook, in documents."""

    def output(self) -> Output:
        """What is shown, before it is written in one of the forms."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.output().text()

    def _repr_html_(self) -> str:
        return self.output().html()

    def to_markdown(self) -> str:
        """The print in Markdown, with a pipe table."""
        return self.output().markdown()

    def to_latex(self) -> str:
        """The print in LaTeX: a table environment that needs no package."""
        return self.output().latex()


def decimals(std_error: float) -> int:
    """Decimals that keep two significant digits of a standard error; 0 to 6."""
    if not 0 < std_error < math.inf:
        return 0 if std_error == math.inf else MOST_DECIMALS
    return max(0, min(MOST_DECIMALS, 1 - math.floor(math.log10(std_error))))


def number(value: float, places: int, least: float = 1.0) -> str:
    """A number with so many decimals. least: the smallest that must be told from 0 with them;
    where it cannot be, or too many digits are needed, the number is written with an exponent."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    plain = f"{value:.{places}f}"
    if len(plain) > LONGEST or least < 10.0 ** (-1 - MOST_DECIMALS):
        return f"{value:.4g}"
    return plain.removeprefix("-") if float(plain) == 0 else plain


def percent(level: float) -> str:
    """A level as it is written: 95%."""
    return f"{100 * level:.6g}%"


def count(value: float) -> str:
    """A number of people with commas; never below 0, as noise may be."""
    return MISSING if math.isnan(value) else f"{max(value, 0.0):,.0f}"


def aligned(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """The cells with spaces behind them, so that decimal points stand below each other."""
    found = [list(row) for row in rows]
    for j in range(width):
        tails = [_tail(row[j]) if row else None for row in found]
        most = max((tail for tail in tails if tail is not None), default=0)
        for row, tail in zip(found, tails, strict=True):
            if row and tail is not None:
                row[j] += " " * (most - tail)
    return found


def _tail(cell: str) -> int | None:
    """Characters from the decimal point on; None for what is no number in decimals."""
    if not cell[-1:].isdigit() or "e" in cell:
        return None
    return len(cell) - cell.find(".") if "." in cell else 0


def _blocks(sizes: Sequence[int], room: int) -> Iterator[list[int]]:
    """Columns that fit beside the labels, one block after the other."""
    block: list[int] = []
    used = 0
    for j, size in enumerate(sizes):
        if block and used + size + len(GAP) > room:
            yield block
            block, used = [], 0
        block.append(j)
        used += size + len(GAP)
    yield block


def printable(text: str) -> str:
    """A label, which may be any text, without signs that would break the line."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _clean(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def shortened(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "~"


def _note(mark: str, text: str) -> list[str]:
    lead = f"{mark}{GAP}" if mark else ""
    return wrapped(lead + text, " " * len(lead) or GAP)


def wrapped(text: str, indent: str = GAP) -> list[str]:
    """A text on as many lines as it needs. A word that is longer than a line is parted."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def marked(text: str) -> str:
    """A text as Markdown that stays as it is."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


def _tex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text)
