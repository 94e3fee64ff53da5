"""The errors privmean raises. None of them depends on private values.

A private step that fails (no location found, say) is not an error but an outcome: it is a
`Release` whose status says so, because the failure itself is a differentially private output.
"""

from __future__ import annotations


class PrivmeanError(Exception):
    """Base of every error raised by privmean."""


class ArgumentError(PrivmeanError, ValueError):
    """An argument cannot be used: names the argument, its value and the remedy."""

    def __init__(self, argument: str, value: object, problem: str, remedy: str) -> None:
        self.argument = argument
        self.value = value
        self.problem = problem
        self.remedy = remedy
        try:
            shown = repr(value)
        except Exception:  # an integer of thousands of digits has no text
            shown = f"<{type(value).__name__}>"
        if len(shown) > 80:
            shown = shown[:38] + "..." + shown[-39:]  # of a path, the end tells most
        super().__init__(f"{argument}={shown}: {problem}; {remedy}")


class Infeasible(PrivmeanError):
    """The plan cannot work at these public numbers. Raised before any data is read.

    `remedy` says which public number would have to change, and to what.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}; {remedy}")


class BudgetExceeded(PrivmeanError):
    """A ledger has less budget left than a release asks for. Nothing was spent."""

    def __init__(self, asked: str, left: str) -> None:
        self.asked = asked
        self.left = left
        super().__init__(f"the release asks for {asked} but the ledger has {left} left")


class PrivateFailure(PrivmeanError):
    """Raised when a number is demanded of a release whose private outcome was a failure."""


class SchemaError(PrivmeanError):
    """The table's public schema (columns, types, roster) cannot be used as asked."""


class PrivmeanWarning(UserWarning):
    """Something public that the caller should know: a delta that is none, another table.

    It never tells of a private value, and nothing is refused for it.
    """
