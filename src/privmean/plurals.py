"""A number and what is counted, as a text says them: 1 column, 2 columns; people of a person."""

from __future__ import annotations


def count_noun(number: int, noun: str) -> str:
    """The number with the noun, in the plural where they are several."""
    return f"{number} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """The word for several, in a print."""
    return "people" if noun == "person" else f"{noun}s"


def count_phrase(number: int, noun: str, one: str, several: str) -> str:
    """The same with the verb: 1 person is, 2 people are."""
    return f"{count_noun(number, noun)} {one if number == 1 else several}"
