"""Wrong command lines in the words of every other error: what is wrong, and what to write."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

from privmean.api.renamed_arguments import COMMANDS, FLAGS, KEYWORDS
from privmean.errors import ArgumentError
from privmean.output import count_noun

# arguments that some commands have an option of another name for
RENAMED = {
    "sd": "spread",
    "clip_radius": "clip",
    "times": "time",
}
STRAY = "unexpected extra argument"
# what parsers say of a value, and what is said here
KINDS = {
    "integer": "is not a whole number",
    "number": "is not a number",
    "float": "is not a number",
}


Command = Any  # as Typer makes them; a group has others by name, in `commands`
Option = Any  # of a command, or an argument without a name of its own


def told(error: Any, arguments: Sequence[str], command: Command) -> str:
    """The error of a command line that could not be read, as Typer raises it, with a remedy."""
    asked, path = _asked(command, arguments)
    problem = " ".join(error.format_message().split()).rstrip(".")
    lines = f"See `{path} --help`."
    name = getattr(error, "option_name", "")
    param: Option | None = getattr(error, "param", None) or next(
        (item for item in asked.params if name in item.opts), None
    )
    if STRAY in problem:
        strays = problem.rpartition("(")[2].rstrip(")").split()
        hint = _repeated(asked.params, arguments, strays) or _needed(
            asked.params, arguments, strays
        )
        hint = hint or f"Put quotes around a text with spaces, and commas into a list. {lines}"
        return f"{path} has no argument {strays[0]!r} here. {hint}"
    if param is None and name:
        known = [flag for item in asked.params for flag in (*item.opts, *item.secondary_opts)]
        if name.strip("-") in known:  # of an argument, which has no option of its own
            return f"{path} has no option {name}. Write the {name.strip('-')} alone."
        return f"{path} has no option {name}. {_instead(name, known) or lines}"
    if param is None:  # a command
        word = problem.partition("'")[2].partition("'")[0]
        if word in COMMANDS:
            return f"{path} has no command {word!r}. {COMMANDS[word]}."
        near = get_close_matches(word, getattr(asked, "commands", ()), n=1)
        return f"{path} has no command {word!r}. {f'Did you mean {near[0]}?' if near else lines}"
    flag, help_ = max(param.opts, key=len), param.help or lines
    if type(error).__name__ == "MissingParameter":
        return f"{flag} is required. {help_}"
    if param.nargs > 1:
        values = " ".join(f"VALUE{k}" for k in range(1, param.nargs + 1))
        help_ = f"Write {flag} {values}. {help_}"
    if name:
        return f"{flag} requires {count_noun(param.nargs, 'value')}. {help_}"
    found = (said for word, said in KINDS.items() if f"valid {word}" in problem)
    kind = next(found, problem.rpartition(": ")[2])
    return f"{flag}{_value(flag, arguments)} {kind}. {help_}"


def _value(flag: str, arguments: Sequence[str]) -> str:
    """The value that a line gives an option, as errors show it."""
    for word, after in pairwise([*arguments, ""]):
        if word.partition("=")[0] == flag:
            return f"={word.partition('=')[2] or after!r}:"
    return ""


def _instead(name: str, known: Sequence[str]) -> str:
    """What to write instead of an option that a command does not have."""
    keyword = name.strip("-").replace("-", "_")
    named = (item for item in KEYWORDS.get(keyword, ()) if item.isidentifier())
    said = (*FLAGS.get(name, ()), *(f"--{item.replace('_', '-')}" for item in named))
    new = next((item for item in said if item.split()[0] in known or item[0].isupper()), "")
    if new:
        return f"{new}." if new[0].isupper() else f"Use {new}."
    near = get_close_matches(name.strip("-"), [item.strip("-") for item in known], n=1)
    return f"Did you mean --{near[0]}?" if near else ""


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
            return f"Repeat the option: {flag} {got[0]} {flag} {got[1]}."
    return ""


def _needed(params: Sequence[Any], arguments: Sequence[str], strays: Sequence[str]) -> str:
    """How a word is said of the first option that the line needs and has not."""
    said = {word.partition("=")[0] for word in arguments}
    for param in params:
        needed = param.required or param.opts[0] == "--value"  # of which there may be several
        if needed and param.opts[0].startswith("--") and not said & set(param.opts):
            return f"Write {param.opts[0]} {' '.join(strays)}."
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
                remedy += f". Repeat the option: {flag} A {flag} B"
            break
    else:
        flag = error.argument
    names = r"\b[a-z_]+(?==| and |$)"
    subject = re.sub(names, lambda found: _flag(found[0], asked.params), error.subject)
    made = ArgumentError(flag, value, problem, remedy, subject=subject)
    made.notice = error.notice
    return made


def _flag(name: str, params: Sequence[Any]) -> str:
    param = _option(name, params)
    return name if param is None else param.opts[0]


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

    def bare(found: re.Match[str]) -> str:
        return f"{found[1]}{_flag(found[2], params)}"

    before = r"requires|with|in|remove|give|use|or|and"
    text = re.sub(rf"(?i)\b((?:(?:{before}) )+)([a-z_]+)\b(?![=('\"])", bare, text)
    text = re.sub(r"\b([a-z_]+)='([\w.-]+)'", word, text)
    text = re.sub(r"\b([a-z_]+)=[\[(]([^\[\](){}=]*)[\])]", several, text)
    return re.sub(r"\b([a-z_]+)=(True|False|)(?![\w(\[{'\".-])", option, text)
