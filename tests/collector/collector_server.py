"""A collector process and a PostgreSQL server of the tests' own, which can be killed."""

from __future__ import annotations

import glob
import http.client
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from privmean.local.vectorized import randomize_many

ADMIN, READER = "an-administrator-s-token", "a-reader-s-long-token"
TOKENS = {"PRIVMEAN_ADMIN_TOKEN": ADMIN, "PRIVMEAN_READ_TOKEN": READER}
SERVE = "import sys; from privmean.cli.app import run; sys.exit(run(['collect', *sys.argv[1:]]))"


def reports_of(round_, n, epsilon=1.0):
    """n reports on the number 7, or on the items 0 to 9 in turn."""
    values = np.arange(n) % 10 if round_.items else np.full(n, 7.0)
    return randomize_many(round_, values, epsilon=epsilon)


class Server:
    """A collector process that can be killed and started again on the same port."""

    def __init__(
        self, folder: Path, rounds, database: str, *options, public=True, env=None, log=None
    ) -> None:
        # a refusal takes its time: little of it here, where no test measures it
        self.options = ["--penalty", "0.2", *(str(item) for item in options)]
        self.env, self.log = {**os.environ, **(env or {})}, log  # log: a file for its errors
        if public:
            self.options.append("--public-results")
        self.files = []
        for k, round_ in enumerate(rounds):
            path = folder / f"round{k}.json"
            path.write_text(round_.to_json())
            self.files += ["--round", str(path)]
        self.database = database
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", SERVE, "serve", *self.files,
             "--database", self.database, "--port", str(self.port), *self.options],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env=self.env,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.strip() == f"collecting on {self.url}", line

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        return code

    def link(self, source: str = "127.0.0.1"):
        """A connection from an address of its own: all of 127.0.0.0/8 is this machine."""
        return http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=30, source_address=(source, 0)
        )

    def ask(
        self, method: str, path: str, body: bytes | None = None, token: str = "",
        source: str = "127.0.0.1", headers=(),
    ):  # fmt: skip
        said = dict(headers) | ({"Authorization": f"Bearer {token}"} if token else {})
        with closing(self.link(source)) as link:
            link.request(method, path, body, said)
            answer = link.getresponse()
            return answer.status, answer.read()

    def get(self, path: str, source: str = "127.0.0.1", headers=()):
        return self.ask("GET", path, source=source, headers=headers)

    def post(
        self, path: str, body: bytes, kind: str = "application/octet-stream",
        source: str = "127.0.0.1", headers=(),
    ):  # fmt: skip
        return self.ask("POST", path, body, "", source, {"Content-Type": kind, **dict(headers)})


@contextmanager
def serving(folder, rounds, database, *options, **settings):
    server = Server(folder, rounds, database, *options, **settings)
    server.start()
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            assert server.stop() == 0


class PostgreSQL:
    """A server in a temporary folder, on loopback, as a user of its own."""

    def __init__(self) -> None:
        found = [shutil.which("initdb"), *glob.glob("/usr/lib/postgresql/*/bin/initdb")]
        binaries = [Path(item).resolve().parent for item in found if item]
        assert binaries, "PostgreSQL is needed: install the package postgresql"
        self.home = binaries[-1]
        self.folder = Path(tempfile.mkdtemp(prefix="privmean-pg-"))
        user: str | None = None
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            names = {entry.pw_name for entry in pwd.getpwall()}
            user = "postgres" if "postgres" in names else "nobody"
            shutil.chown(self.folder, user)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.data = str(self.folder / "data")
        self.run = {
            "user": user,
            "cwd": self.folder,
            "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"},
        }
        self.url = f"postgresql://privmean@127.0.0.1:{self.port}/postgres"
        subprocess.run(
            [self.home / "initdb", "-D", self.data, "-U", "privmean", "-A", "trust", "-E", "UTF8"],
            check=True, capture_output=True, **self.run,
        )  # fmt: skip

    def start(self) -> None:
        import psycopg

        self.process = subprocess.Popen(
            [self.home / "postgres", "-D", self.data, "-h", "127.0.0.1", "-p", str(self.port),
             "-k", str(self.folder), "-c", "shared_buffers=16MB"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.run,
        )  # fmt: skip
        for _ in range(400):
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: the fast shutdown; SIGQUIT: at once, with a recovery at the next start."""
        self.process.send_signal(how)
        self.process.wait(timeout=60)

    def remove(self) -> None:
        shutil.rmtree(self.folder)
