"""Words that are no words of a function, or no more, and where each is said."""

from __future__ import annotations

_ESTIMATOR = "set it where the estimator is made: method={}"
MOVED = {
    "target": _ESTIMATOR.format("DefaultMean(target=...)"),
    "excess": _ESTIMATOR.format("DefaultMean(excess=...)"),
    "beta": _ESTIMATOR.format("HeavyTailed(..., beta=...) or Anisotropic(..., beta=...)"),
    "scale_range": _ESTIMATOR.format("Anisotropic(scale_range=...)"),
    "sampled_degrees": _ESTIMATOR.format("Anisotropic(..., sampled_degrees=...)"),
    "design_effect": "say related=",
    "effects": "say related=RandomEffects(...)",
    **{
        word: f"say it of the table: pm.Table(source, person=..., {word}=...)"
        for word in (
            "roster",
            "delimiter",
            "quote",
            "decimal",
            "encoding",
            "header",
            "null_words",
            "machine",
        )
    },
    "memory_limit": "say it of the table: pm.Table(..., machine=pm.Resources(memory=...))",
    "threads": "say it of the table: pm.Table(..., machine=pm.Resources(threads=...))",
    "temp_directory": "say it of the table: pm.Table(..., machine=pm.Resources(spill=...))",
    "progress": "say it of the table: pm.Table(..., machine=pm.Resources(progress=True))",
    "residual_sd": "say assume=Errors(residual_sd=...)",
    "between_sd": "say assume=Errors(residual_sd=..., between_sd=...)",
    "coefficient_range": "say assume=(lower, upper), or Errors(..., range=...)",
    "magnitudes": _ESTIMATOR.format("Magnitudes(smallest, largest)"),
    "range": _ESTIMATOR.format("Winsorized(..., range=...)"),
    "threshold": "ask the question itself: pm.ask(table, pm.Regression(..., threshold=...))",
    "records": "ask the question itself: pm.ask(table, pm.Regression(..., records=...))",
    "resolution": "ask the question itself, such as pm.ask(table, pm.Mean(..., resolution=...))",
    "smallest": "say within=(smallest, largest)",
    "largest": "say within=(smallest, largest)",
}
