"""Containerfile and compose file, read as an engine would read them; none runs here."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from collector_server import serving
from typer.main import get_command

from privmean.cli.collect import app
from privmean.local.round_builders import mean_round

ROOT = Path(__file__).resolve().parents[2]
KNOWN = {
    "FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "ENV", "EXPOSE", "STOPSIGNAL",
    "HEALTHCHECK", "ENTRYPOINT",
}  # fmt: skip
IMAGE = re.compile(r"[a-z]+(-[a-z]+)*:[0-9a-z][0-9a-z.-]*")


def steps():
    """(instruction, rest) of the Containerfile; each of ours stands on one line."""
    lines = (ROOT / "Containerfile").read_text().splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]


def compose():
    """The compose file: mappings and lists of plain words, by their indentation."""
    lines = [
        (len(line) - len(line.lstrip()), line.strip())
        for line in (ROOT / "compose.yaml").read_text().splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]

    def block(place, depth):
        if lines[place][1].startswith("- "):
            found = []
            while place < len(lines) and lines[place][0] == depth:
                assert lines[place][1].startswith("- ")
                found.append(lines[place][1][2:])
                place += 1
            return found, place
        found = {}
        while place < len(lines) and lines[place][0] == depth:
            key, _, value = lines[place][1].partition(":")
            assert re.fullmatch(r"\w+", key), lines[place]
            assert key not in found
            place += 1
            if not value and place < len(lines) and lines[place][0] > depth:
                found[key], place = block(place, lines[place][0])
            else:
                found[key] = value.strip()
        return found, place

    result, end = block(0, 0)
    assert end == len(lines)
    return result


def serve_options(words):
    """What the command makes of these words; an option that it does not have ends it."""
    assert words[:3] == ["privmean", "collect", "serve"]
    command = get_command(app).commands["serve"]
    return command.make_context("serve", list(words[3:])).params


def test_the_image_runs_the_collector_as_a_user_without_rights():
    found = steps()
    words = [word for word, _ in found]
    assert set(words) <= KNOWN
    for rest in (rest for word, rest in found if word == "FROM"):
        image, _, stage = rest.partition(" AS ")
        assert IMAGE.fullmatch(image)
        assert "latest" not in image
        assert re.fullmatch("[a-z]*", stage)
    last = found[len(words) - 1 - words[::-1].index("FROM") :]
    by_word = dict(last)
    order = [word for word, _ in last]
    assert order.index("USER") < order.index("ENTRYPOINT")
    assert int(by_word["USER"]) >= 1000
    assert order[-1] == "ENTRYPOINT"
    options = serve_options(json.loads(by_word["ENTRYPOINT"]))
    assert options["host"] == "0.0.0.0"
    assert str(options["port"]) == by_word["EXPOSE"]
    assert "PRIVMEAN_DATABASE=sqlite:////data/reports.db" in by_word["ENV"]
    assert by_word["VOLUME"] == by_word["WORKDIR"] == "/data"


def test_what_is_copied_is_there_and_nothing_else_is_sent():
    ignored = (ROOT / ".containerignore").read_text().split()
    assert ignored[0] == "*"
    copied = set()
    for rest in (rest for word, rest in steps() if word == "COPY" and "--from" not in rest):
        copied |= {part.removeprefix("./") for part in shlex.split(rest)[:-1]}
    assert {f"!{name}" for name in copied} == set(ignored[1:])
    for name in copied:
        assert (ROOT / name).exists(), name
    (install,) = [rest for word, rest in steps() if word == "RUN" and "pip install" in rest]
    assert "[postgresql]" in install
    assert "requirements-dev.lock" in install
    locked = (ROOT / "requirements-dev.lock").read_text().lower()
    for name in ("fastapi", "uvicorn", "psycopg", "psycopg-binary"):
        assert f"\n{name}==" in locked


def test_the_compose_file_holds_no_secret_and_opens_no_door():
    found = compose()
    services = found["services"]
    for name, service in services.items():
        assert IMAGE.fullmatch(service["image"]), name
        assert "latest" not in service["image"]
        assert "privileged" not in service
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in found["volumes"]
        for other in service.get("depends_on", {}):
            assert services[other]["healthcheck"]["test"]
        for key, value in service["environment"].items():
            if any(word in key for word in ("PASSWORD", "TOKEN")):
                assert re.fullmatch(r"\$\{PRIVMEAN_[A-Z_]+:\?[^}]+\}", value), key
    collector = services["collector"]
    assert (ROOT / collector["build"]["dockerfile"]).is_file()
    entry = json.loads(dict(steps())["ENTRYPOINT"])
    options = serve_options([*entry, *collector["command"]])
    assert options["log"].value == "actions"
    host = re.fullmatch(
        r"postgresql://privmean@(\w+)/privmean", collector["environment"]["PRIVMEAN_DATABASE"]
    )
    assert host.group(1) in services
    assert services["database"]["environment"]["POSTGRES_DB"] == "privmean"
    ignored = (ROOT / ".gitignore").read_text().split()
    assert ".env" in ignored


@pytest.mark.slow
def test_the_health_check_of_the_image_asks_a_collector(tmp_path):
    check = json.loads(dict(steps())["HEALTHCHECK"].split("CMD ")[1])
    round_ = mean_round(0, 1, epsilon=1, persons=9)

    def ask(port):
        words = [sys.executable, *check[1:-1], check[-1].replace(":8000/", f":{port}/")]
        return subprocess.run(words, capture_output=True, check=False, timeout=60).returncode

    with serving(tmp_path, [round_], f"sqlite:///{tmp_path}/r.db") as server:
        assert ask(server.port) == 0
    assert ask(server.port) != 0


@pytest.mark.slow
@pytest.mark.system
def test_the_password_of_the_database_comes_from_the_environment(monkeypatch, tmp_path):
    """As in the compose file: no password in the URL, PGPASSWORD beside it."""
    from collector_server import PostgreSQL

    from privmean.collector.store import Store
    from privmean.errors import PrivmeanError

    server = PostgreSQL()
    try:
        access = Path(server.data) / "pg_hba.conf"
        server.start()
        import psycopg

        with psycopg.connect(server.url, autocommit=True) as link:
            link.execute("ALTER ROLE privmean PASSWORD 'a-long-password'")
        server.stop()
        access.write_text("host all all 127.0.0.1/32 scram-sha-256\n")
        monkeypatch.setenv("PGPASSWORD", "a-long-password")
        server.start()
        Store(server.url).close()
        monkeypatch.setenv("PGPASSWORD", "a-wrong-password")
        with pytest.raises(PrivmeanError) as caught:
            Store(server.url)
        assert "wrong-password" not in str(caught.value)
        server.stop()
    finally:
        server.remove()
