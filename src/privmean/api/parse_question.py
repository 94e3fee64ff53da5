"""Questions made from texts and plain values: what a command line or a TOML file says of them.

The fields of a question are its words everywhere: the keywords in Python, the options on a command
line, the keys in a file. What they may hold follows from their types here.

Assumptions and estimators in one text form: `KIND name=value ...`, on a command line or in TOML.

`sub-gaussian sd=2`, `bounded-moment order=3 bound=60 records=20 range=-100,100`, `0,10` (bounds),
`0,10;-1,1` (bounds a term), `covariance 1,4,9` (or a file), `default target=mean`. The kinds
are listed here and nowhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from math import isfinite
from typing import Any, Literal, get_args, get_origin, get_type_hints

from privmean.errors import ArgumentError
from privmean.validate import keyword_hint, renamed_value

ASSUMPTIONS = {
    "sub-gaussian": "privmean.estimators.concentration:SubGaussian",
    "log-sobolev": "privmean.estimators.concentration:LogSobolev",
    "between-within": "privmean.estimators.concentration:BetweenWithin",
    "bounded-within": "privmean.estimators.concentration:BoundedWithin",
    "unknown-scale": "privmean.estimators.concentration:UnknownScale",
    "bounded-moment": "privmean.estimators.heavy_tailed:BoundedMoment",
    "errors": "privmean.questions.regression_options:WorkingErrors",
    "random-effects": "privmean.estimators.winsorized:RandomEffects",
}
ESTIMATORS = {
    "default": "privmean.estimators.means.default_mean:DefaultMean",
    "winsorized": "privmean.estimators.winsorized:WinsorizedMean",
    "bounded": "privmean.estimators.means.bounded:BoundedMean",
    "heavy-tailed": "privmean.estimators.heavy_tailed:HeavyTailedMean",
    "anisotropic": "privmean.estimators.anisotropic.anisotropic_mean:AnisotropicMean",
    "magnitudes": "privmean.estimators.regression.private_scale:PrivateScale",
}
EXAMPLES = {  # of what estimators need that depend on something
    "winsorized": "sub-gaussian sd=2",
    "bounded": "0,10",
    "heavy-tailed": "bounded-moment order=3 bound=60 range=-100,100",
}
PARTS = {
    "weights": "privmean.estimators.heavy_tailed.heavy_tailed_plan:RecordWeights"
}  # settings with settings
WORKING = {
    "exchangeable": "privmean.estimators.regression.panel:Exchangeable",
    "ar1": "privmean.estimators.regression.panel:AR1",
}


def assumption_of(name: str, text: str) -> Any:
    """The assumption that a text names; bare numbers are bounds."""
    kind, _, rest = text.strip().partition(" ")
    if kind == "covariance":
        from privmean.questions.assumptions import Covariance

        numbers, said, scales = rest.partition(" scales=")
        how: dict[str, Any] = {"scales": scales.strip()} if said else {}
        return Covariance(covariance_of(name, numbers.strip()), **how)
    if ";" in text and " " not in text.strip():  # limits of every term, in order
        return tuple(assumption_of(name, item) for item in text.strip().split(";"))
    if kind not in ASSUMPTIONS and "," in kind and not rest:
        pair = _value(kind)
        if isinstance(pair, tuple) and all(isinstance(x, float) for x in pair):
            return pair
    return _made(name, text, ASSUMPTIONS, ["covariance", "LOWER,UPPER"])


def method_of(name: str, text: str, assume: object, names: Sequence[str] = ()) -> tuple[Any, Any]:
    """(method, assume) as a question takes them: one of its `names`, or the estimator itself, which
    then holds the assumption."""
    kind, _, rest = text.strip().partition(" ")
    if not rest.strip() and kind in names:
        if kind in EXAMPLES and assume is None and kind != "winsorized":  # which finds a scale
            raise _lacking(name, kind)
        return kind, assume
    first = () if assume is None else (assume,)
    if kind == "anisotropic" and assume is not None:
        first = (getattr(assume, "bound", None),)
        scales = getattr(assume, "scales", None)
        if scales is not None and "scales=" not in rest:
            text = f"{text} scales={scales}"
    others = [item for item in names if item not in ESTIMATORS]
    return _made(name, text, ESTIMATORS, others, *first), None


def _lacking(name: str, kind: str) -> ArgumentError:
    """The refusal of a method without the assumption that it needs. name: how method= is called."""
    other = name.replace("method", "assume")
    remedy = f"give {other}, such as {other} '{EXAMPLES[kind]}'"
    return ArgumentError(other, None, f"is required for method {kind}", remedy)


def working_of(name: str, text: str) -> Any:
    """A working covariance: independence, `exchangeable icc=.3` or `ar1 phi=.5`."""
    return text if text == "independence" else _made(name, text, WORKING, ["independence"])


def related_of(name: str, text: str) -> Any:
    """A design effect, or random effects."""
    try:
        return float(text)
    except ValueError:
        return _made(name, text, {"random-effects": ASSUMPTIONS["random-effects"]}, ["a number"])


def _part(name: str, key: str, text: str) -> Any:
    """A setting that has settings itself: `max_records:12,critical:3`."""
    return _made(name, f"{key} {text.replace(':', '=').replace(',', ' ')}", PARTS, [])


def _made(name: str, text: str, kinds: dict[str, str], others: list[str], *first: object) -> Any:
    kind, *words = text.split() or [""]
    if kind not in kinds:
        near = get_close_matches(kind, kinds, n=1)
        known = ", ".join([*kinds, *others])
        remedy = f"did you mean {near[0]}?" if near else f"give one of {known}"
        remedy = renamed_value("method", kind) or remedy
        raise ArgumentError(name, text, "is not a known kind", remedy)
    module, _, attribute = kinds[kind].partition(":")
    made: Callable[..., Any] = getattr(import_module(module), attribute)
    known_fields = [item.name for item in fields(made) if item.init]  # type: ignore[arg-type]
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.replace("-", "_")
        if not equals or key not in known_fields:
            near = get_close_matches(key, known_fields, n=1)
            remedy = f"did you mean {near[0]}=?" if near else f"set {', '.join(known_fields)}"
            remedy = keyword_hint(key, value, (), remedy)
            raise ArgumentError(name, word, f"is not a setting of {kind}", remedy)
        if key in settings:
            raise ArgumentError(name, text, f"must set {key} once", "set it once")
        settings[key] = _part(name, key, value) if key in PARTS else _value(value)
    needed = [
        item.name
        for item in fields(made)  # type: ignore[arg-type]
        if item.init and item.default is MISSING and item.default_factory is MISSING
    ]
    missing = [item for item in needed[len(first) :] if item not in settings]
    if missing and kinds is ESTIMATORS and missing[0] == needed[0] and kind in EXAMPLES:
        raise _lacking(name, kind)
    if missing:
        raise ArgumentError(name, text, f"must set {', '.join(missing)}", f"give {missing[0]}=...")
    return made(*first, **settings)


def _value(text: str) -> Any:
    """A number, numbers with commas, several such with semicolons, yes or no, or the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if ";" in text:
        return tuple(_value(item) for item in text.split(";"))
    try:
        if "," in text:
            return tuple(float(item) for item in text.split(","))
        number = float(text)
    except ValueError:
        return text
    return int(number) if text.lstrip("+-").isdigit() and isfinite(number) else number


def covariance_of(name: str, text: str) -> Any:
    """A variance, variances a column, or the matrix in a file."""
    import numpy as np

    wrong = ArgumentError(
        name,
        text,
        "is not a variance, a list of variances or a file with the matrix",
        "give a number, numbers such as 1,4,9, or the path of a .npy or text file",
    )
    try:
        numbers = [float(item) for item in text.split(",")]
        return numbers[0] if len(numbers) == 1 else np.array(numbers)
    except ValueError:
        if not os.path.isfile(text):
            raise wrong from None
    try:
        if text.endswith(".npy"):
            with open(text, "rb") as stream:
                found = np.lib.format.read_array(stream)
        else:
            with open(text) as lines:
                rows = [line.replace(",", " ").split() for line in lines if line.strip()]
            found = np.array(rows, dtype=float)
    except (OSError, ValueError, EOFError):
        raise wrong from None
    return found.ravel() if 1 in found.shape else found


QUESTIONS = {
    "mean": "privmean.questions.mean:Mean",
    "regression": "privmean.questions.regression:Regression",
    "curve": "privmean.questions.curve:Curve",
    "variance": "privmean.questions.variance:Variance",
    "compare": "privmean.questions.compare:Compare",
    "quantile": "privmean.questions.quantile:Quantile",
}


@dataclass(frozen=True)
class Field:
    """One word of a question. required: it has no default."""

    name: str
    hint: Any
    help: str
    default: Any
    required: bool


def question_class(kind: str) -> Any:
    if kind not in QUESTIONS:
        near = get_close_matches(str(kind), QUESTIONS, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"give one of {', '.join(QUESTIONS)}"
        raise ArgumentError("ask", kind, "is not a kind of question", remedy)
    module, _, name = QUESTIONS[kind].partition(":")
    return getattr(import_module(module), name)


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The words of a question, in the order of its fields."""
    from dataclasses import MISSING

    hints = get_type_hints(cls, include_extras=True)
    found = []
    for item in fields(cls):
        hint = hints[item.name]
        words = ""
        if hasattr(hint, "__metadata__"):
            words, hint = hint.__metadata__[0], get_args(hint)[0]
        found.append(Field(item.name, hint, words, item.default, item.default is MISSING))
    return tuple(found)


def question_of(kind: str, said: Mapping[str, Any], word: str = "{}") -> Any:
    """A question from what is said of it; None counts as not said.

    word: how an argument is called in messages ("--{}" on a command line). Texts are read as
    `privmean.api.parse_question` has them; other values are taken as they are.
    """
    cls = question_class(kind)
    known = {item.name: item for item in fields_of(cls)}
    given = {name: value for name, value in said.items() if value is not None}
    for name, value in given.items():
        if name not in known:
            remedy = keyword_hint(name, value, known, f"see help(pm.{cls.__name__})")
            raise ArgumentError(word.format(name), value, f"is not an argument of {kind}", remedy)
    for name, item in known.items():
        if item.required and name not in given:
            raise ArgumentError(word.format(name), None, "is required", item.help)
        if name in given:
            given[name] = _read(word.format(name), item, given[name])
    if isinstance(given.get("method"), str) and "assume" in known:
        names = _words_of(known["method"].hint)
        method, assume = method_of(
            word.format("method"), given["method"], given.get("assume"), names
        )
        given["method"] = method
        given["assume"] = assume
    return cls(**given)


def _read(name: str, item: Field, value: object) -> Any:
    """A value of the field's type from a text or a plain value of TOML."""
    if isinstance(value, str):
        if item.name == "assume":
            return assumption_of(name, value)
        if item.name == "working":
            return working_of(name, value)
        if item.name == "keys":
            return tuple(value.split(","))
        if item.name == "clustering":
            return related_of(name, value)
        if item.name == "contrasts" and not _names(item.hint):
            from privmean.questions.regression_options import contrasts_of

            return contrasts_of(name, value)
        if item.name == "bins" and re.match(r"\d{4}-\d", value):  # dates
            return tuple(value.split(","))
        if _numbers(item.hint):
            return numbers_of(name, value)
        if _names(item.hint):
            return (value,)
        return value
    if item.name in ("scales", "bounds") and isinstance(value, list) and by_name(item.hint):
        return _sizes_of(name, value)
    if isinstance(value, list):
        return tuple(tuple(x) if isinstance(x, list) else x for x in value)
    return value


def _numbers(hint: object) -> bool:
    """Whether a field holds numbers in a row."""
    return any(
        get_origin(part) is not None and float in get_args(part) and str not in get_args(part)
        for part in (hint, *get_args(hint))
    )


def _words_of(hint: object) -> tuple[str, ...]:
    """The words that a field may hold: those of its literals."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(word for part in get_args(hint) for word in _words_of(part))


def _names(hint: object) -> bool:
    return any(get_args(part) == (str, ...) for part in (hint, *get_args(hint)))


def numbers_of(name: str, text: str) -> tuple[float, ...]:
    """Numbers with commas."""
    try:
        return tuple(float(item) for item in text.split(","))
    except ValueError:
        raise ArgumentError(name, text, "must be numbers", "use for example 0,1,2") from None


def by_name(hint: object) -> bool:
    """Whether a field holds numbers by the name of a column or term."""
    parts = (part for part in (hint, *get_args(hint)) if get_origin(part) is Mapping)
    return any(get_origin(get_args(part)[1]) is not Mapping for part in parts)


def _sizes_of(name: str, given: list[str]) -> dict[str, float | tuple[float, ...]]:
    result: dict[str, float | tuple[float, ...]] = {}
    for item in given:
        term, _, number = item.rpartition("=")
        try:
            numbers = tuple(float(part) for part in number.split(","))
        except ValueError:
            raise ArgumentError(
                name, item, "is not TERM=NUMBER", "use for example tenure=4, or tenure=4,2"
            ) from None
        if term in result:
            raise ArgumentError(name, item, f"must set {term} once", "set it once")
        result[term] = numbers[0] if len(numbers) == 1 else numbers
    return result
