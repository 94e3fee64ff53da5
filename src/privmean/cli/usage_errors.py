"""Wrong command lines in the words of every other error: what is wrong, and what to write."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from privmean.errors import ArgumentError

# arguments that some commands have an option of another name for
RENAMED = {
    "memory_limit": "memory",
    "temp_directory": "spill",
    "sd": "spread",
    "clip_radius": "clip",
    "times": "time",
    "null_words": "null_word",
}
STRAY = "unexpected extra argument"


class Option(Protocol):
    """Of a command, or an argument without a name of its own; as Typer makes them."""

    name: str | None
    opts: list[str]
    secondary_opts: list[str]
    nargs: int
    help: str | None


class CommandError(Protocol):
    """The error of a command line, as Typer raises it."""

    def format_message(self) -> str: ...


class Command(Protocol):
    """As Typer makes them; a group has others by name, in `commands`."""

    @property
    def params(self) -> Sequence[Any]: ...


def told(error: CommandError, arguments: Sequence[str], command: Command) -> str:
    """The error of a command line that could not be read, with a remedy."""
    problem = " ".join(error.format_message().split()).rstrip(".")
    asked, path = _asked(command, arguments)
    param = getattr(error, "param", None)
    remedy = f"`{path} --help` lists what it takes"
    if STRAY in problem:
        strays = problem.rpartition("(")[2].rstrip(")").split()
        remedy = (
            _repeated(asked.params, arguments, strays)
            or _needed(asked.params, arguments, strays)
            or f"put quotes around a text with spaces, and commas into a list; {remedy}"
        )
    elif (short := param or _short_of(asked.params, problem)) and short.help:
        flag = max(short.opts, key=len)
        remedy = f"{flag} is: {short.help.rstrip('.')}"
        if short.nargs > 1:
            words = " ".join(f"VALUE{k}" for k in range(1, short.nargs + 1))
            remedy = f"say {short.nargs} values with a space between: {flag} {words}; {remedy}"
    return f"{problem[:1].lower()}{problem[1:]}; {remedy}"


def _asked(command: Command, arguments: Sequence[str]) -> tuple[Command, str]:
    """The command that a line calls, and how."""
    path = ["privmean"]
    for name in arguments:
        below: Mapping[str, Command] = getattr(command, "commands", {})
        if name not in below:
            break
        command = below[name]
        path.append(name)
    return command, " ".join(path)


def _short_of(params: Sequence[Option], problem: str) -> Option | None:
    """The option of several values that a problem says has too few."""
    several = [param for param in params if param.nargs > 1]
    return next((param for param in several if f"'{param.opts[0]}'" in problem), None)


def _repeated(params: Sequence[Any], arguments: Sequence[str], strays: Sequence[str]) -> str:
    """How several values are said of the option that has got them, if it takes several."""
    flags = {flag for param in params if getattr(param, "multiple", False) for flag in param.opts}
    for place, word in enumerate(arguments):
        flag, _, first = word.partition("=")
        got = [first] if first else []
        for item in arguments[place + 1 :]:
            if item.startswith("--"):
                break
            got.append(item)
        if flag in flags and set(got[1:]) & set(strays):
            return f"say the option once for each: {flag} {got[0]} {flag} {got[1]}"
    return ""


def _needed(params: Sequence[Any], arguments: Sequence[str], strays: Sequence[str]) -> str:
    """How a word is said of the first option that the line needs and has not."""
    said = {word.partition("=")[0] for word in arguments}
    for param in params:
        needed = param.required or param.opts[0] == "--value"  # of which there may be several
        if needed and param.opts[0].startswith("--") and not said & set(param.opts):
            return f"say it by an option: {param.opts[0]} {' '.join(strays)}"
    return ""


def in_options(error: ArgumentError, command: Command, arguments: Sequence[str]) -> ArgumentError:
    """The same with the argument called as the option of the line that says it, or could."""
    asked, _ = _asked(command, arguments)
    said = {word.partition("=")[0] for word in arguments}
    value = error.value
    missing = value is None or (isinstance(value, list | tuple) and not value)
    problem, remedy = (_spelled(text, asked.params) for text in (error.problem, error.remedy))
    for param in asked.params:
        flag = param.opts[0]
        named = missing or said & set(param.opts)
        if named and param is _option(error.argument, asked.params):
            items = [error.value] if isinstance(error.value, str) else error.value
            commas = isinstance(items, list | tuple) and any("," in str(item) for item in items)
            if getattr(param, "multiple", False) and commas:
                remedy += f"; several are said one by one: {flag} A {flag} B"
            return ArgumentError(flag, error.value, problem, remedy)
    return ArgumentError(error.argument, error.value, problem, remedy)


def _option(name: str, params: Sequence[Any]) -> Option | None:
    """The option that says an argument, by its name, its flag or another name, if there is one."""
    options = {param.opts[0]: param for param in params if param.opts[0].startswith("--")}
    by_name = {param.name: param for param in options.values()}
    flag = f"--{name.replace('_', '-')}"
    found: Option | None = by_name.get(name) or options.get(flag) or by_name.get(RENAMED.get(name))
    return found


def _spelled(text: str, params: Sequence[Any]) -> str:
    """Words for arguments as options: header=True as --header, bins=[0, 1] as --bins 0,1,
    neighbors='add-remove' as --neighbors add-remove."""

    def several(found: re.Match[str]) -> str:
        items = [item.strip(" '\"") for item in found[2].split(",") if item.strip()]
        param = _option(found[1], params)
        if param is None:
            return found[0]
        flag = param.opts[0]
        if getattr(param, "multiple", False):
            return " ".join(f"{flag} {item}" for item in items)
        return f"{flag} {(',' if param.nargs == 1 else ' ').join(items)}"

    def option(found: re.Match[str]) -> str:
        param = _option(found[1], params)
        if param is None:
            return found[0]
        off = found[2] == "False" and param.secondary_opts
        return str(off[0] if off else param.opts[0])

    def word(found: re.Match[str]) -> str:
        for param in params:
            if param.name == found[1] and param.opts[0].startswith("--"):
                return f"{param.opts[0]} {found[2]}"
        return found[0]

    text = re.sub(r"\b([a-z_]+)='([\w.-]+)'", word, text)
    text = re.sub(r"\b([a-z_]+)=[\[(]([^\[\](){}=]*)[\])]", several, text)
    return re.sub(r"\b([a-z_]+)=(True|False|)(?![\w(\[{'\".-])", option, text)
