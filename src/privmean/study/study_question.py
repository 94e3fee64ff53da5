"""One question of a study, with what the study says of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, is_dataclass

from privmean import validate
from privmean.errors import ArgumentError
from privmean.questions.base import COLUMNS, Question, SharesLocation

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,63}")


@dataclass(frozen=True)
class StudyQuestion:
    """name: what it is called in the study. weight: of its squared error beside the others. error:
    the wanted root mean square error, None for a share of what the others leave. guess_sd: public
    guess of the deviation between people, for planning only. scale: public guess of the sampling
    error, which the noise is compared with; None for the predicted one. label, unit, note: for
    readers of the report; a study does not depend on them."""

    name: str
    question: Question
    weight: float = 1.0
    error: float | None = None
    guess_sd: float | None = None
    scale: float | None = None
    label: str = field(default="", repr=False)
    unit: str = field(default="", repr=False)
    note: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise ArgumentError(
                "name",
                self.name,
                "is not a name of a question",
                "begin with a letter or digit, and use at most 64 letters, digits, ' ', "
                "'_', '-' or '.'",
            )
        if self.name == "look":
            raise ArgumentError(
                "name", self.name, "is reserved for shared location queries", "choose another name"
            )
        if not hasattr(self.question, "estimator") or isinstance(self.question, type):
            raise ArgumentError(
                "question", self.question, "is not a question", "use for example pm.Mean(...)"
            )
        for word in ("label", "unit", "note"):
            if not isinstance(getattr(self, word), str):
                raise ArgumentError(word, getattr(self, word), "is not text", "give text")
        validate.positive("weight", self.weight)
        if self.guess_sd is not None:
            validate.positive("guess_sd", self.guess_sd)
        if self.scale is not None:
            validate.positive("scale", self.scale)
        if self.error is None:
            return
        validate.positive("error", self.error)
        for name, value, unset in (("weight", self.weight, 1.0), ("scale", self.scale, None)):
            if value != unset:
                raise ArgumentError(name, value, "cannot be combined with error", "use one of them")
        if self.guess_sd is None:
            raise ArgumentError(
                "guess_sd",
                None,
                f"is required with error ({self.name})",
                "give a public guess of the standard deviation between people",
            )

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The columns that the question names, each after its word; patterns are left out."""
        found: dict[str, str] = {}
        question: object = self.question
        if is_dataclass(question):
            said = {item.name: getattr(question, item.name) for item in fields(question)}
            for word in COLUMNS:
                named = said.get(word)
                for name in (named,) if isinstance(named, str) else tuple(named or ()):
                    found.setdefault(name, f"{self.name}.{word}")
        for name in (
            self.question.shareable_columns if isinstance(self.question, SharesLocation) else ()
        ):
            found.setdefault(name, f"{self.name}.formula")
        return [(word, name) for name, word in found.items() if "*" not in name and "?" not in name]
