"""The command line as a shell runs it: through the one door that turns errors into exit codes."""

from __future__ import annotations

from types import SimpleNamespace

from typer.testing import CliRunner

from privmean.cli.app import run


def shell(
    *arguments: object, input: str | None = None, env: dict[str, str] | None = None
) -> SimpleNamespace:
    """`privmean ARGUMENTS`: its exit_code, stdout, stderr. input: what it reads."""
    with CliRunner().isolation(input, env=env) as streams:
        code = run([str(item) for item in arguments])
        shown = [stream.getvalue().decode() for stream in streams[:2]]
    return SimpleNamespace(
        exit_code=code, stdout=shown[0], stderr=shown[1], output=shown[0] + shown[1]
    )
