"""privmean mean: one private mean of a table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from privmean.cli import options as opt

PRIVATE_FAILURE = 3


def mean(
    table: Annotated[
        str,
        typer.Argument(help="CSV, Parquet or JSON-lines file (also .gz, .zst), folder or glob."),
    ],
    person: Annotated[str, typer.Option(help="Column that names the person.")],
    value: Annotated[
        list[str] | None, typer.Option(help="Column to average; repeat for several.")
    ] = None,
    values_from: Annotated[
        list[str] | None, typer.Option(help="Columns by wildcard, such as 'word_freq_*'.")
    ] = None,
    epsilon: opt.Epsilon = None,
    delta: opt.Delta = 0.0,
    rho: opt.Rho = None,
    neighbors: opt.Neighbors = "replace-one",
    estimand: Annotated[
        str, typer.Option(help="Mean over persons (one vote each) or over records (capped).")
    ] = "persons",
    cap: Annotated[
        int | None, typer.Option(help="Records a person that count, for --estimand records.")
    ] = None,
    bounds: opt.Bounds = None,
    sd: opt.Sd = None,
    between_sd: opt.BetweenSd = None,
    within_sd: opt.WithinSd = None,
    records: opt.Records = None,
    group: opt.Group = None,
    group_sd: opt.GroupSd = None,
    moment_order: opt.MomentOrder = None,
    moment_bound: opt.MomentBound = None,
    covariance: opt.Covariance = None,
    method: opt.Method = "auto",
    target: opt.Target = None,
    excess: opt.Excess = None,
    beta: opt.Beta = None,
    scale_range: opt.ScaleRange = None,
    sampled_degrees: opt.SampledDegrees = None,
    level: opt.Level = 0.95,
    n_design: opt.NDesign = None,
    resolution: Annotated[
        float, typer.Option(help="Public resolution of values, a power of two.")
    ] = 2.0**-40,
    ledger: Annotated[
        str | None, typer.Option(help="Ledger file that the release is charged to.")
    ] = None,
    delimiter: opt.Delimiter = None,
    quote: opt.Quote = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    header: opt.Header = None,
    null_word: opt.NullWord = None,
    roster: opt.Roster = None,
    roster_column: opt.RosterColumn = None,
    memory: opt.Memory = None,
    threads: opt.Threads = None,
    spill: opt.Spill = None,
    sign: opt.Sign = None,
    as_json: opt.Json = False,
) -> None:
    """Release a differentially private mean of people, with an interval and the promise.

    Nothing need be known about the values: without further options the range is found privately
    and paid for out of the budget.
    """
    import privmean as pm
    from privmean.errors import ArgumentError

    key = opt.signing_key(sign, as_json)
    columns = [*(value or []), *(values_from or [])]
    if not columns:
        raise ArgumentError(
            "--value", None, "no column was named", "give --value COLUMN or --values-from PATTERN"
        )
    if (group is None) != (group_sd is None):
        raise ArgumentError("--group", group, "goes together with --group-sd", "give both")
    if group is not None:
        # the other settings describe estimators that know nothing of groups
        others = {
            "--sd": sd, "--bounds": bounds, "--moment-order": moment_order, "--target": target,
            "--covariance": covariance, "--n-design": n_design, "--excess": excess,
            "--cap": cap, "--beta": beta, "--scale-range": scale_range,
            "--method": None if method == "auto" else method,
            "--estimand": None if estimand == "persons" else estimand,
            "--roster": roster,
            "--neighbors": None if neighbors == "replace-one" else neighbors,
        }  # fmt: skip
        for name, given in others.items():
            if given is not None:
                raise ArgumentError(name, given, "does not go with --group", "leave it out")
        if delta == 0:
            raise ArgumentError("--delta", delta, "is needed by --group", "give --delta 1e-6")
        if within_sd is None or records is None:
            raise ArgumentError(
                "--group", group, "needs --within-sd and --records", "give the deviations"
            )
    arguments: dict[str, Any] = (
        {}
        if group is not None
        else opt.assumption(
            sd=sd,
            between_sd=between_sd,
            within_sd=within_sd,
            records=records,
            moment_order=moment_order,
            moment_bound=moment_bound,
            covariance=covariance,
        )
    )
    # everything that can be refused from the arguments alone is refused before the table is read
    pm.Budget(epsilon=epsilon, delta=delta, rho=rho)
    machine = opt.machine(memory, threads, spill)
    written = opt.text(delimiter, quote, decimal, encoding, header, null_word)
    people = pm.read(
        table,
        person=person,
        values=columns,
        estimand=estimand,
        cap=cap,
        resolution=resolution,
        roster=opt.roster(roster, roster_column, person, written),
        progress=opt.on_terminal(),
        **written,
        **machine,
    )
    if group is not None:
        effects = pm.RandomEffects(
            group_sd=group_sd,
            within_sd=within_sd,
            records=records,
            group_sizes=pm.group_sizes(table, person=person, group=group, **written, **machine),
            person_sd=between_sd or 0.0,
        )
        release = pm.random_effects_mean(
            people, effects, epsilon=epsilon, delta=delta, rho=rho, level=level,
            ledger=None if ledger is None else pm.Ledger.open(ledger),
        )  # fmt: skip
        _shown(release, as_json, key, effects)
        return
    release = pm.mean(
        people,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        neighbors=neighbors,
        bounds=bounds,
        method=method,
        target=target,
        excess=excess,
        beta=beta,
        scale_range=scale_range,
        sampled_degrees=sampled_degrees,
        level=level,
        n_design=n_design,
        ledger=None if ledger is None else pm.Ledger.open(ledger),
        **arguments,
    )
    _shown(release, as_json, key)


def _shown(release: Any, as_json: bool, key: Any, effects: Any = None) -> None:
    """Print a release; key: signs it; effects: the random effects that it was made with."""
    if as_json:
        typer.echo(opt.stored(release, key))
    else:
        typer.echo(release.summary())
        if effects is not None:
            typer.echo(
                f"  design effect {effects.design_effect:.4g}: {len(effects.group_sizes)} groups "
                f"(effectively {effects.effective_groups:.3g}), correlation within a group "
                f"{effects.icc:.3g}"
            )
    if release.failed:
        raise typer.Exit(PRIVATE_FAILURE)
