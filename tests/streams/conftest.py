"""What tests of streams share: the arrivals that a command reads from standard input."""

import json

import pytest

from cli_runner import shell
from privmean.streams import record_sources as sources


@pytest.fixture(name="feed")
def feeder(tmp_path, monkeypatch):
    """Run a command on some text (or rows, as lines of JSON) as a real standard input."""

    def feed(text, *arguments):
        if isinstance(text, list):
            text = "".join(json.dumps(row) + "\n" for row in text)
        path = tmp_path / "input"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        with path.open("rb") as file:
            # the command reads the descriptor, so give it one
            monkeypatch.setattr(sources, "stdin", file.fileno)
            return shell(*arguments)

    return feed
