"""The errors privmean raises. None of them depends on private values.

A private step that fails (no location found, say) is not an error but an outcome: it is a
`Release` whose status says so, because the failure itself is a differentially private output.
"""

from __future__ import annotations

# whose objects hold records, which no message may quote
DATA = {"pandas", "polars", "pyarrow", "duckdb", "pyspark", "narwhals", "ibis", "numpy"}
UNCHARGED = "Nothing was charged."
LONGEST = 40  # items of a list that is no data
RECORDS = {"source", "person", "people"}  # arguments whose lists are data, however short


def _holds_records(value: object) -> bool:
    """Whether a value given as an argument may be a column of somebody's data."""
    if isinstance(value, dict):
        return any(map(_holds_records, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return len(value) > LONGEST or any(map(_holds_records, value))
    if isinstance(value, str | bytes):
        return False
    kind = type(value)
    return kind.__module__.partition(".")[0].strip("_") in DATA and hasattr(kind, "__len__")


def shown(value: object) -> str:
    """A value as a message shows it: on one line, and only by its kind where it may be data."""
    try:
        whole = f"<{type(value).__name__}>" if _holds_records(value) else repr(value)
    except Exception:  # an integer of thousands of digits has no text
        whole = f"<{type(value).__name__}>"
    shown = " ".join(whole.split()) if "\n" in whole else whole
    if len(shown) > 80:
        shown = shown[:38] + "..." + shown[-39:]  # of a path, the end tells most
    return shown


def _ended(text: str) -> str:
    return text if not text or text.endswith(("?", ".")) else f"{text}."


def _sentence(text: str) -> str:
    """A text as a sentence; one that begins with a name or a number keeps its beginning."""
    first, space, rest = text.partition(" ")
    plain = first.rstrip(",;").isalpha() and first.islower()
    return _ended(f"{first.capitalize()}{space}{rest}" if plain else text)


class PrivmeanError(Exception):
    """Base of every error raised by privmean.

    Examples
    --------
    try:
        pm.mean([1.0, 2.0, 3.0])
    except pm.PrivmeanError as error:  # any of them
        print(error)
    """

    notice = ""

    def __str__(self) -> str:
        return f"{super().__str__()} {self.notice}".rstrip()


class ArgumentError(PrivmeanError, ValueError):
    """An argument cannot be used.

    Attributes
    ----------
    argument : str
        Its name.
    value : object
        Its value; None leaves the value out of the text.
    problem, remedy : str
        What is wrong, and what to do. The text is `argument=value: problem. Remedy.`
    subject : str
        Replaces the beginning of the text, for errors about several arguments.

    Examples
    --------
    try:
        pm.mean([1.0, 2.0, 3.0], epsilon=-1.0)
    except pm.ArgumentError as error:
        assert error.argument == "epsilon"
    """

    def __init__(
        self, argument: str, value: object, problem: str, remedy: str, *, subject: str = ""
    ) -> None:
        self.argument = argument
        self.value = value
        self.problem = problem
        self.remedy = remedy
        self.subject = subject
        data = argument in RECORDS and isinstance(value, list | tuple | set | frozenset | dict)
        text = f"<{type(value).__name__}>" if data else shown(value)
        subject = subject or (argument if value is None else f"{argument}={text}:")
        super().__init__(f"{subject} {_ended(problem)} {_sentence(remedy)}".rstrip())


class InfeasibleError(PrivmeanError):
    """The plan cannot work at these public numbers; no data are read.

    Attributes
    ----------
    problem, remedy : str
        What is wrong, and which public number to change.

    Examples
    --------
    try:
        pm.plan(pm.Mean(), n=50, epsilon=1.0)
    except pm.InfeasibleError as error:
        print(error)  # says which n is enough
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{_sentence(problem)} {_sentence(remedy)}".rstrip())
        self.problem, self.remedy = problem, remedy


class BudgetExceededError(PrivmeanError):
    """A ledger has less budget left than a release needs; nothing was charged.

    Attributes
    ----------
    asked, left : str
        The budget of the release, and what the ledger has left.

    Examples
    --------
    ledger = pm.Ledger(epsilon=0.5)
    try:
        pm.mean(np.ones(2000), epsilon=1.0, ledger=ledger)
    except pm.BudgetExceededError as error:  # before any noise
        print(error)
    """

    def __init__(self, asked: str, left: str) -> None:
        super().__init__(f"The release needs {asked}, but the ledger has {left} left. {UNCHARGED}")
        self.asked, self.left = asked, left


class NoEstimateError(PrivmeanError):
    """A number is required of a release without an estimate.

    Examples
    --------
    far = 2.0 ** np.linspace(-39, 39, 420)  # no scale to find
    release = pm.mean(far, epsilon=1.0, noise=pm.SimulatedNoise(1))
    try:
        float(release)
    except pm.NoEstimateError as error:
        assert release.failed
    """


class SchemaError(PrivmeanError):
    """The public schema of the table (columns, types, roster) cannot be used.

    Examples
    --------
    try:
        pm.mean({"who": [1, 2], "x": np.array(["a", "b"])}, "x", person="who", epsilon=1.0)
    except pm.SchemaError as error:
        print(error)
    """


class PrivmeanWarning(UserWarning):
    """A public fact that you should know, such as a delta that is too large.

    Privacy
    -------
    Warnings never depend on private values, and nothing is refused.

    Examples
    --------
    import warnings

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        pm.mean(np.ones(2000), assume=pm.SubGaussian(sd=1.0), epsilon=1.0, delta=0.01)
    assert said[0].category is pm.PrivmeanWarning
    """
