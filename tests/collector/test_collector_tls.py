"""A collector that speaks TLS itself: certificate and key by files."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import socket
import ssl
import time
import urllib.request

import pytest
from collector_server import Server
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from privmean.local.round_builders import mean_round


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
