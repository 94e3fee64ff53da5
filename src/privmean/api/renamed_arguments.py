"""Old names and other usual ones, with what replaces them: the one table of all refusals.

A name is refused only where it is not accepted (any more). Replacements of keywords and flags are
tried in order: one that begins with a name is used where the function or command accepts it; a
sentence always fits.
"""

from __future__ import annotations

# public names of the package: old -> new, or a sentence
NAMES = {
    "persons_needed": "required_n",
    "least_epsilon": "required_epsilon",
    "Infeasible": "InfeasibleError",
    "BudgetExceeded": "BudgetExceededError",
    "PrivateFailure": "NoEstimateError",
    "Machine": "Resources",
    "Errors": "WorkingErrors",
    "Magnitudes": "PrivateScale",
    "TwoArms": "Use pm.Compare(..., arms=..., membership='public')",
    "Anisotropic": "AnisotropicMean",
    "HeavyTailed": "HeavyTailedMean",
    "Winsorized": "WinsorizedMean",
    "MeanStreams": "GroupMeanStream",
    "Goal": "Use privmean.streams.ErrorGoal",
    "Loading": "Use privmean.streams.ColumnNorms",
    "Part": "Use privmean.local.ClientSplit",
    "ValuesRelease": "MultiValueRelease",
    "AsPublished": "Use privmean.published.WinsorizedAsPublished",
    "VarianceAsPublished": "Use privmean.published.VarianceAsPublished",
    "VarianceSearch": "Use privmean.published.VarianceAsPublished",
    "PureCover": "Use privmean.published.PureCover",
    "BandedInverse": "Use privmean.published.BandedInverse",
    "Decaying": "Use privmean.published.Decaying",
    "DampedToeplitz": "Use privmean.streams.Buffered, or leave strategy out",
    "bandwidth": "Use privmean.local.curve with several bandwidths: reports do not depend on them",
    "merge_all": "Use Tally.merge",
    "tau_bounded_records": "Use privmean.local.tau_random_effects, with the range over 2 as within",
    "plan_mean": "Use pm.plan(pm.Mean(...), ...)",
    "random_effects_mean": "Use pm.mean(..., clustering=pm.RandomEffects(...))",
}

_TABLE = "Use pm.Table(source, person=..., {}=...)"
_RESOURCES = "Use pm.Table(source, person=..., resources=pm.Resources({}=...))"
_REGRESSION = "Use pm.ask(table, pm.Regression(..., {}=...), ...)"
_ENTROPY = "Releases use system entropy; in tests pass noise=pm.SimulatedNoise(1)"
_NO_RANGE = "Leave it out: no range is needed"
_NO_METHOD = "Give it to a question that has methods, or leave it out"
_FOUND = "Remove it: clipping bounds are found privately"
_METHOD = "method=pm.{}"
_ALL_PAIRS = "Leave it out: all pairs of enough people are compared"
_BOUNDS = (
    "bounds=(lower, upper)",
    "Give bounds to the question, or leave them out",
)
_LEVEL = ("level=0.95",)
_PUBLISHED = "Use pm.mean(..., method=privmean.published.{})"
_SEARCH = _PUBLISHED.format("VarianceAsPublished(smallest, largest, center)")

# keywords of functions and classes: old or usual -> new, new=form, or a sentence
KEYWORDS: dict[str, tuple[str, ...]] = {
    # renamed
    "cap": ("max_records",),
    "related": ("clustering",),
    "rule": ("group_rule",),
    "other": ("other_group",),
    "before": ("baseline",),
    "slope": ("baseline_slope",),
    "n_design": ("n_guess",),
    "memory": ("memory_limit", _RESOURCES.format("memory_limit")),
    "spill": ("temp_directory", _RESOURCES.format("temp_directory")),
    "machine": ("resources", _TABLE.format("resources")),
    "around": ("center",),
    "null_words": ("na_values", _TABLE.format("na_values")),
    "persons": ("n",),
    "error": ("target_error",),
    "sizes": ("group_sizes",),
    # retired
    "caps": ("Use mechanism='closest'",),
    "grid_bits": ("Leave it out: only the retired mechanism 'laplace' used it",),
    # given elsewhere
    "target": (_METHOD.format("DefaultMean(target=...)"),),
    "excess": ("excess_ratio", _METHOD.format("DefaultMean(excess_ratio=...)")),
    "beta": (_METHOD.format("HeavyTailedMean(..., beta=...)"),),
    "scale_range": (_METHOD.format("AnisotropicMean(scale_range=...)"),),
    "sampled_degrees": (_ALL_PAIRS,),
    "magnitudes": (_METHOD.format("PrivateScale(smallest, largest)"),),
    "design_effect": ("clustering", "Use clustering"),
    "effects": ("clustering=pm.RandomEffects(...)", "Use clustering=pm.RandomEffects(...)"),
    "roster": (_TABLE.format("roster"),),
    "delimiter": (_TABLE.format("delimiter"),),
    "quote": (_TABLE.format("quote"),),
    "decimal": (_TABLE.format("decimal"),),
    "encoding": (_TABLE.format("encoding"),),
    "header": (_TABLE.format("header"),),
    "memory_limit": (_RESOURCES.format("memory_limit"),),
    "threads": (_RESOURCES.format("threads"),),
    "temp_directory": (_RESOURCES.format("temp_directory"),),
    "progress": (_RESOURCES.format("progress"),),
    "residual_sd": ("assume=pm.WorkingErrors(residual_sd=...)",),
    "between_sd": ("assume=pm.WorkingErrors(residual_sd=..., between_sd=...)",),
    "coefficient_range": ("coefficient_bounds", "assume=(lower, upper)"),
    "near": ("bounds=(lower, upper)", _FOUND),
    "complete": (_FOUND,),
    "threshold": (_REGRESSION.format("threshold"),),
    "records": ("min_records", _REGRESSION.format("min_records")),
    "resolution": ("Use pm.ask(table, pm.Mean(..., resolution=...), ...)",),
    "smallest": _BOUNDS,
    "largest": _BOUNDS,
    "center": (_SEARCH,),
    "within": (_NO_RANGE,),
    "method": (_NO_METHOD,),
    "split": (_PUBLISHED.format("ThreadedMean(moment)"),),
    "mode": ("Remove it: bias bounds are calibrated",),
    "clipped_count": ("Use private_radius=True, or remove it",),
    # usual elsewhere
    "range": ("coefficient_bounds", *_BOUNDS),
    "lower": _BOUNDS,
    "upper": _BOUNDS,
    "limits": _BOUNDS,
    "clip": _BOUNDS,
    "min": _BOUNDS,
    "max": _BOUNDS,
    "groupby": ("by",),
    "group_by": ("by",),
    "group": ("by", "arms"),
    "groups": ("keys", "by"),
    "treatment": ("arms",),
    "categories": ("keys", "levels"),
    "column": ("values", "value"),
    "columns": ("values", "value"),
    "y": ("values", "value", "formula"),
    "value": ("values",),
    "values": ("value",),
    "data": ("source",),
    "df": ("source",),
    "id": ("person",),
    "user": ("person",),
    "alpha": _LEVEL,
    "confidence": _LEVEL,
    "confidence_level": _LEVEL,
    "conf_level": _LEVEL,
    "ci": _LEVEL,
    "sample_size": ("n",),
    "eps": ("epsilon",),
    "probs": ("q",),
    "quantiles": ("q",),
    "seed": (_ENTROPY,),
    "random_state": (_ENTROPY,),
    "rng": (_ENTROPY,),
}

# values of arguments: (argument, old) -> new, or a sentence
VALUES = {
    ("estimand", "persons"): "people",
    ("weights", "persons"): "people",
    ("effect", "own"): "per_person",
    ("rule", "mode"): "most_frequent",
    ("group_rule", "mode"): "most_frequent",
    ("method", "cover"): _PUBLISHED.format("PureCover(moment)"),
    ("method", "noisy-degree"): "two-phase",
    # retired; a name or a sentence
    ("mechanism", "laplace"): "Use mechanism='auto', or privmean.published.laplace_mean",
    ("mechanism", "ball"): "Use mechanism='ball-bit', or privmean.published.ball_mean",
    ("mechanism", "priv-unit"): "Use mechanism='closest'",
    ("mechanism", "unary"): "Use mechanism='subset'",
    (
        "mechanism",
        "histogram",
    ): "Use mechanism='subset', or privmean.published.split_clients_as_printed",
    ("weights", "published"): "Use weights='minimax', or privmean.published.laplace_mean",
}

_ASSUME = "--assume 'between-within between_sd=1 within_sd=2 records=5'"
_MOMENT = "--assume 'bounded-moment order=3 bound=60 records=20'"
_ERRORS = "--assume 'errors residual_sd=0.3 between_sd=0.05'"
_EFFECTS = "random-effects group=COLUMN group_sd=1 within_sd=2 records=5"
_CLUSTERED = f"--clustering '{_EFFECTS}'"
_PAIR = ("--bounds LOWER UPPER", "--assume LOWER,UPPER", _NO_RANGE)

# options of commands whose keyword does not say it: old or usual -> new option with its value, or a
# sentence
FLAGS: dict[str, tuple[str, ...]] = {
    # renamed
    "--persons-a-period": ("--n-per-period",),
    "--null-word": ("--na-value",),
    "--center": (_SEARCH,),
    "--within": (_NO_RANGE,),
    "--method": (_NO_METHOD,),
    # given elsewhere
    "--between-sd": (_ASSUME,),
    "--within-sd": (_ASSUME,),
    "--moment-order": (_MOMENT,),
    "--moment-bound": (_MOMENT,),
    "--covariance": ("--assume 'covariance 1,4,9'",),
    "--target": ("--method 'default target=mean'",),
    "--excess": ("--method 'default excess_ratio=0.5'",),
    "--beta": ("--method 'anisotropic beta=0.01'",),
    "--scale-range": ("--method 'anisotropic scale_range=0.1,10'",),
    "--sampled-degrees": (_ALL_PAIRS,),
    "--group": (_CLUSTERED, "--by COLUMN", "--arms COLUMN"),
    "--group-sd": (_CLUSTERED,),
    "--icc": ("--working 'exchangeable icc=0.3'",),
    "--phi": ("--working 'ar1 phi=0.5'",),
    "--scale": ("--scales TERM=NUMBER",),
    "--residual-sd": (_ERRORS,),
    "--coefficient-range": ("--assume LOWER,UPPER",),
    # usual elsewhere
    "--smallest": _PAIR,
    "--largest": _PAIR,
    "--lower": _PAIR,
    "--upper": _PAIR,
    "--range": _PAIR,
    "--groupby": ("--by COLUMN", "--arms COLUMN"),
    "--group-by": ("--by COLUMN", "--arms COLUMN"),
    "--column": ("--value COLUMN",),
    "--columns": ("--value COLUMN",),
    "--values": ("--value COLUMN",),
    "--id": ("--person COLUMN",),
    "--user": ("--person COLUMN",),
    "--key": ("--keys A,B",),
    "--groups": ("--keys A,B",),
    "--alpha": ("--level 0.95",),
    "--confidence": ("--level 0.95",),
    "--confidence-level": ("--level 0.95",),
    "--output": ("--out FILE", "--json", "--json-lines"),
    "--seed": ("Releases use system entropy",),
    "--random-state": ("Releases use system entropy",),
}

# commands: old -> a sentence
COMMANDS = {"fixed-design": "Use pm.FixedDesign in Python"}
