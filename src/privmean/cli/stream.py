"""`privmean stream`: a private running mean of events on standard input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from privmean.continual.candidates import Candidate, Prospect
    from privmean.continual.stream import MeanStream
    from privmean.noise.simulated import SimulatedNoise

app = typer.Typer(
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    help="A private running mean of events read from standard input; 'plan' compares strategies.",
)

Participations = Annotated[
    int | None, typer.Option("--max-participations", help="Most steps one person may take part in.")
]
Separation = Annotated[
    int | None, typer.Option("--min-separation", help="Least distance between two of them.")
]
Goal = Annotated[
    str, typer.Option(help="What matters: shown (clamped to the region), rmse, final or times.")
]
FromStep = Annotated[int, typer.Option(help="With shown or rmse: the first step that matters.")]
LastWithin = Annotated[
    float,
    typer.Option(help="With shown: the last step's noise, at most so many times the least."),
]
Times = Annotated[list[int] | None, typer.Option("--time", help="With goal times: such a step.")]
Epsilon = Annotated[float | None, typer.Option(help="Budget of all releases together.")]
Delta = Annotated[float, typer.Option(help="Goes with --epsilon, such as 1e-6.")]
Rho = Annotated[float | None, typer.Option(help="zCDP budget instead of epsilon and delta.")]
Neighbors = Annotated[str, typer.Option(help="replace-one, or zero-out (values become centre).")]


def register(parent: typer.Typer) -> None:
    """Mount the commands as `stream` and `stream plan`."""
    parent.add_typer(app, name="stream")


@app.callback()
def stream(
    context: typer.Context,
    *,
    person: Annotated[str | None, typer.Option(help="Column or key of the person's id.")] = None,
    value: Annotated[
        list[str] | None, typer.Option(help="Column or key of a value; repeat for more.")
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    rho: Rho = None,
    max_participations: Participations = None,
    min_separation: Separation = None,
    steps: Annotated[int | None, typer.Option(help="Horizon; without one, no known end.")] = None,
    clip: Annotated[
        float | None, typer.Option(help="Clipping radius; found privately if not given.")
    ] = None,
    center: Annotated[
        list[float] | None, typer.Option(help="Centre of the region, one a value.")
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None, typer.Option(help="Public limits of the one value.")
    ] = None,
    neighbors: Neighbors = "replace-one",
    goal: Goal = "shown",
    from_step: FromStep = 1,
    time: Times = None,
    last_within: LastWithin = 1.75,
    release_every: Annotated[int, typer.Option(help="Release after so many arrivals.")] = 1,
    filler: Annotated[
        bool, typer.Option("--filler", help="Let time go on when nobody may take part.")
    ] = False,
    first_release: Annotated[int, typer.Option(help="Show nothing before this step.")] = 1,
    clamp: Annotated[bool, typer.Option(help="Project estimates on the region.")] = True,
    level: Annotated[float, typer.Option(help="Level of the noise interval.")] = 0.95,
    state: Annotated[
        Path | None, typer.Option(help="State file (secret): a restart then loses nothing.")
    ] = None,
    append: Annotated[
        bool,
        typer.Option("--append", help="After a restart, input holds new events only."),
    ] = False,
    replay: Annotated[
        bool,
        typer.Option(help="After a restart, write all releases again, from the first."),
    ] = True,
    moved: Annotated[
        bool,
        typer.Option(
            "--moved",
            help="The state file is a copy: the newest, and its original is never used again.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Write releases to this file, each once, instead of standard output."),
    ] = None,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="With --state: a last line without a line feed counts."),
    ] = False,
    input_format: Annotated[str, typer.Option("--format", help="auto, jsonl or csv.")] = "auto",
    delimiter: Annotated[str, typer.Option(help="Of CSV.")] = ",",
    quote: Annotated[str, typer.Option(help="Of CSV; '' if quotes mean nothing.")] = '"',
    decimal: Annotated[str, typer.Option(help="The decimal sign, '.' or ','.")] = ".",
    encoding: Annotated[str, typer.Option(help="utf-8, latin-1, cp1252, ...")] = "utf-8",
    null_word: Annotated[
        list[str] | None, typer.Option(help="A text that means missing; repeat for more.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the released path as PNG.")] = None,
    html: Annotated[Path | None, typer.Option(help="Draw it as a self-contained page.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No summary on standard error.")] = False,
    seed: Annotated[
        int | None, typer.Option(help="SIMULATED noise, not private: for tests and studies.")
    ] = None,
) -> None:
    """Read events (JSON lines, or CSV with a header), write one JSON line a release.

    With --state, run the same command on the same input after a stop: what was read is skipped,
    what was released is written again, unchanged, and the stream goes on. Ids, order and number of
    events are public; the values of one person are protected, and their text never decides whether
    an event counts. A last line without a line feed is left for the next run.

    The state file holds raw data. Copied at any moment, it is whole; a copy is refused without
    --moved, an old one put back is refused where FILE.seen or --output tells. What cannot be
    noticed is an old snapshot of all files together: never go on from one.
    """
    if context.invoked_subcommand is not None:
        return
    from privmean.continual import events
    from privmean.continual.eventlines import Reader
    from privmean.continual.releasefile import ReleaseFile, silence
    from privmean.continual.stream import MeanStream
    from privmean.errors import ArgumentError, PrivmeanError
    from privmean.people.textformat import TextFormat

    try:
        if person is None or not value:
            raise ArgumentError("person/value", None, "is missing", "give --person and --value")
        if max_participations is None or min_separation is None:
            raise ArgumentError(
                "max_participations/min_separation",
                None,
                "is missing",
                "say how often a person may take part: at most K steps, at least b apart",
            )
        settings: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": delta,
            "rho": rho,
            "max_participations": max_participations,
            "min_separation": min_separation,
            "steps": steps,
            "dimension": len(value),
            "clip_radius": clip,
            "center": list(center) if center else 0.0,
            "bounds": bounds,
            "neighbors": neighbors,
            "goal": goal,
            "from_step": from_step,
            "times": list(time or ()),
            "last_within": last_within,
            "release_every": release_every,
            "filler": filler,
        }
        form = TextFormat(delimiter, quote, decimal, encoding, None, tuple(null_word or ()))
        reader = Reader(person, tuple(value), input_format, form)
        if not quiet and steps is not None and not (state is not None and state.exists()):
            typer.echo("planning: comparing strategies (once; the state file keeps it)", err=True)
        running = MeanStream(
            state=state,
            moved=moved,
            noise=_simulated(seed),
            clamp=clamp,
            first_release=first_release,
            level=level,
            **settings,
        )
        with running:
            done = events.run(
                running,
                reader,
                append=append,
                replay=replay,
                complete=complete or state is None,
                output=None if output is None else ReleaseFile(output),
            )
            _draw(running, plot, html, value)
            if not quiet:
                typer.echo(events.summary(running, done), err=True)
    except PrivmeanError as problem:
        typer.echo(f"privmean stream: {problem}", err=True)
        raise typer.Exit(2) from None
    except BrokenPipeError:
        # nobody reads on: what was not written yet is written by the next run
        silence()
        raise typer.Exit(1) from None
    if done.stopped:
        raise typer.Exit(130)


@app.command("plan")
def plan(
    *,
    steps: Annotated[int, typer.Option(help="How many steps.")],
    max_participations: Annotated[int, typer.Option(help="Most steps a person.")],
    min_separation: Annotated[int, typer.Option(help="Least distance between two of them.")],
    dimension: Annotated[int, typer.Option(help="Values a record.")] = 1,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    rho: Rho = None,
    clip: Annotated[float, typer.Option(help="Clipping radius.")] = 1.0,
    neighbors: Neighbors = "replace-one",
    goal: Annotated[
        str | None, typer.Option(help="shown (the usual one with a budget), rmse, final or times.")
    ] = None,
    from_step: FromStep = 1,
    time: Times = None,
    last_within: LastWithin = 1.75,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Every strategy with its error, best first. Reads no data, spends nothing.

    rmse is sensitivity times the normalised Frobenius norm (noise 1 a unit of sensitivity). With a
    budget, further columns show the error of the estimate in the unit of the values: of what is
    shown (clamped), of the noise (l2), at the last step, and the first step from which on the noise
    stays below a tenth of the region.
    """
    import json

    from privmean.continual.candidates import Prospect
    from privmean.continual.planning import survey
    from privmean.continual.sensitivity import Participation
    from privmean.continual.shown import Shown
    from privmean.errors import PrivmeanError
    from privmean.privacy.budget import Budget

    try:
        unit = None
        if epsilon is not None or rho is not None:
            mu = Budget(epsilon=epsilon, delta=delta, rho=rho).gaussian_mu()
            movement = 1 if neighbors == "zero-out" else 2
            unit = movement / mu if mu else None
        usual = "times" if time else "rmse" if unit is None else "shown"
        found = survey(
            max_participations=max_participations,
            min_separation=min_separation,
            steps=steps,
            goal=goal or usual,
            from_step=from_step,
            times=time or (),
            shown=None if unit is None else Shown(unit, dimension, last_within),
            watch=_progress(),
        )
    except PrivmeanError as problem:
        typer.echo(f"privmean stream plan: {problem}", err=True)
        raise typer.Exit(2) from None
    prospects = None
    if unit is not None:
        pattern = Participation(max_participations, min_separation)
        prospects = [Prospect.of(item, pattern, steps, unit, clip, dimension) for item in found]
    if as_json:
        facts = {
            "steps": steps,
            "max_participations": max_participations,
            "min_separation": min_separation,
            "dimension": dimension,
            "goal": goal or usual,
            "noise_unit": None if unit is None else unit * clip * dimension**0.5,
        }
        rows = [item.to_dict() for item in found]
        for row, item in zip(rows, prospects or (), strict=False):
            row.update(item._asdict())
        typer.echo(json.dumps({**facts, "strategies": rows}))
    else:
        typer.echo(_table(found, prospects))


def _progress() -> Callable[[str], None] | None:
    """Shows on a terminal which strategy is being evaluated; wiped by the next one."""
    import sys

    if not sys.stderr.isatty():
        return None
    return lambda name: typer.echo(f"\r\x1b[K{name} ...\r", err=True, nl=False)


def _table(found: list[Candidate], prospects: list[Prospect] | None) -> str:
    head = ["strategy", "rmse", "goal", "final", "sensitivity", "numbers kept"]
    rows = [
        [
            item.strategy.name,
            f"{item.rmse:.6f}",
            f"{item.rmse_goal:.6f}",
            f"{item.rmse_final:.6f}",
            f"{item.sensitivity:.4f}",
            str(item.state),
        ]
        for item in found
    ]
    for index, (step, _) in enumerate(found[0].at):
        head.append(f"at {step}")
        for row, item in zip(rows, found, strict=True):
            row.append(f"{item.at[index][1]:.6f}")
    if prospects is not None:
        head += ["error shown", "error rmse", "error final", "below 10 % from"]
        for row, (shown, noise, last, small) in zip(rows, prospects, strict=True):
            row += [f"{shown:.4g}", f"{noise:.4g}", f"{last:.4g}", str(small or "never")]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells[1:]]))
    return "\n".join(lines)


def _simulated(seed: int | None) -> SimulatedNoise | None:
    if seed is None:
        return None
    from privmean.noise.simulated import SimulatedNoise

    return SimulatedNoise(seed)


def _draw(running: MeanStream, plot: Path | None, html: Path | None, names: list[str]) -> None:
    if plot is None and html is None:
        return
    from privmean.continual import drawing

    path = drawing.thin(running.releases())
    if plot is not None:
        drawing.png(path, names, plot, running.guarantee.describe())
    if html is not None:
        drawing.html(path, names, html, running.guarantee.describe())
