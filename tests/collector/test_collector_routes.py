"""Every route of a collector, asked by anybody and by each role: no failure, nothing in the log."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import re
import socket
import ssl
import time
import urllib.request
from contextlib import closing

import pytest
from collector_server import ADMIN, READER, TOKENS, Server, serving
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from privmean.collector.collector_app import Collector, make_app
from privmean.collector.collector_parts import Settings
from privmean.local.round_builders import mean_round

ROUND = mean_round(0, 10, epsilon=1, persons=1000)
KNOWN = ROUND.identifier.hex()
ODD = ["0" * 16, "nothing", "..", "%00", "%ff", "a" * 5000, "%F0%9F%98%80"]
NOWHERE = ["/openapi.json", "/docs", "/redoc", "/docs/oauth2-redirect", "/nothing", "//", "/%00"]
QUERIES = [
    "",
    "?level=0.9",
    "?level=x",
    "?level=2",
    "?after=-1",
    "?since=nan",
    "?limit=1e9",
    "?%ff",
]


def routes(folder):
    """The paths of the application, as its router knows them."""
    collector = Collector([ROUND], f"sqlite:///{folder}/other.db", Settings())
    try:
        return sorted({route.path for route in make_app(collector).routes})
    finally:
        collector.store.close()


def paths(folder):
    found = routes(folder)
    assert "/metrics" in found
    assert len(found) > 10
    for path in found:
        for given in [KNOWN, *ODD] if "{" in path else [""]:
            yield re.sub(r"\{[^}]*\}", given, path)
    yield from NOWHERE


@pytest.mark.slow
@pytest.mark.parametrize("public", [True, False])
def test_a_get_of_any_path_neither_fails_nor_fills_the_log(tmp_path, public):
    log = tmp_path / "errors"
    every = list(paths(tmp_path))
    with log.open("w") as held, serving(
        tmp_path, [ROUND], f"sqlite:///{tmp_path}/r.db", "--penalty", 0.001, public=public,
        env=TOKENS, log=held,
    ) as server:  # fmt: skip
        statuses = {}
        for path in every:
            for query in QUERIES:
                for token in ("", READER, ADMIN):
                    headers = {"Authorization": f"Bearer {token}"} if token else {}
                    source = f"127.0.{len(statuses) // 200 + 1}.{len(statuses) % 200 + 1}"
                    with closing(server.link(source)) as link:
                        link.request("GET", path + query, None, headers)
                        answer = link.getresponse()
                        answer.read()
                    statuses[path + query, token] = answer.status
                    assert answer.getheader("Server") is None
                    assert answer.getheader("Referrer-Policy") == "no-referrer"
                    assert answer.getheader("X-Content-Type-Options") == "nosniff"
                    assert answer.getheader("Strict-Transport-Security") is None
    assert {k: v for k, v in statuses.items() if v >= 500} == {}
    assert statuses["/openapi.json", ADMIN] == 404
    assert statuses["/metrics", READER] == 200
    assert statuses["/metrics", ""] == (200 if public else 401)
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert events == ["started", "stopped"]  # each line is JSON, and none tells of a failure


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A certificate for this machine's own address, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a collector")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(True, None), True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "cert.pem", folder / "key.pem"


@pytest.mark.slow
def test_reports_over_tls_and_handshakes_that_never_end(tmp_path, pair):
    round_ = mean_round(0, 1, epsilon=1, persons=9)
    cert, key = pair
    server = Server(
        tmp_path, [round_], f"sqlite:///{tmp_path}/r.db", "--certfile", cert, "--keyfile", key,
        "--patience", 2,
    )  # fmt: skip
    server.url = server.url.replace("http:", "https:")
    server.start()
    try:
        trusted = ssl.create_default_context(cafile=cert)
        with urllib.request.urlopen(f"{server.url}/healthz", context=trusted) as answer:
            assert json.loads(answer.read()) == {"status": "ok"}
            # browsers are told to stay with it
            assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
            assert answer.headers["Server"] is None
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(f"{server.url}/healthz")
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        start = time.monotonic()
        for link in silent:
            link.settimeout(20)
            with contextlib.suppress(ConnectionError):
                assert link.recv(100) == b""
            link.close()
        assert time.monotonic() - start < 15
        with urllib.request.urlopen(f"{server.url}/healthz", context=trusted) as answer:
            assert answer.status == 200
    finally:
        server.stop()
