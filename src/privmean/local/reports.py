"""The wire format of a report: a 42-byte header, a payload, optionally an authentication code.

Little-endian: magic "LD", version, mechanism, round (8), nonce (16), level (2), payload length (4),
reserved (4, zero), CRC-32 (4) of header and payload. Reading is strict: a report is taken as it is
or refused with a reason, never repaired. Pure Python: both halves import it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from privmean.errors import PrivmeanError
from privmean.local.round import (
    CHOSEN,
    CODES,
    HYBRID,
    PIECEWISE,
    RETIRED,
    Round,
)
from privmean.plain_data import parsed
from privmean.validate import renamed_value

MAGIC = b"LD"
VERSION = 1
HEADER = struct.Struct("<2sBB8s16sHII")
CRC = struct.Struct("<I")
POINT = struct.Struct("<I")  # which design point, before the payload of a mechanism
HEADER_SIZE = HEADER.size + CRC.size
MAC_SIZE = 32
NONCE_SIZE = 16
KEY = slice(12, 30)  # nonce and level, in a header
KEY_SIZE = NONCE_SIZE + 2
SECRET_SIZE = 32  # bytes that prove tickets
LARGEST_PAYLOAD = 1 << 22

_NAMES = {code: name for name, code in CODES.items()}
_RETIRED = {code: name for name, code in RETIRED.items()}


class ReportError(PrivmeanError):
    """A report that cannot be accepted.

    Attributes
    ----------
    reason : str
        The word under which it is counted.
    remedy : str
        What to use instead of a retired mechanism.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(f"the report is refused: {reason}" + (remedy and f". {remedy}."))


@dataclass(frozen=True)
class Report:
    """One report in parts.

    Attributes
    ----------
    mechanism : int
        Code of the mechanism.
    round_id, nonce : bytes
        Id of the round, and the nonce.
    level : int
        Index of the epsilon level.
    payload : bytes
        The randomized answer.
    mac : bytes
        Authentication code, if the round issues its nonces.
    """

    mechanism: int
    round_id: bytes
    nonce: bytes
    level: int
    payload: bytes
    mac: bytes = b""

    def to_bytes(self) -> bytes:
        return self.body() + self.mac

    def body(self) -> bytes:
        """Header and payload: what the authentication code covers."""
        head = HEADER.pack(
            MAGIC,
            VERSION,
            self.mechanism,
            self.round_id,
            self.nonce,
            self.level,
            len(self.payload),
            0,
        )
        return head + CRC.pack(zlib.crc32(self.payload, zlib.crc32(head))) + self.payload

    def to_json(self) -> str:
        """One line of JSON with exactly the same content."""
        values: dict[str, object] = {
            "version": VERSION,
            "mechanism": _NAMES.get(self.mechanism, self.mechanism),
            "round": self.round_id.hex(),
            "nonce": self.nonce.hex(),
            "level": self.level,
            "payload": self.payload.hex(),
        }
        if self.mac:
            values["mac"] = self.mac.hex()
        return json.dumps(values, separators=(",", ":"))


def payload_size(round_: Round) -> int:
    """The exact payload length of every report of this round."""
    point = POINT.size if round_.points else 0
    if round_.mechanism in (PIECEWISE, HYBRID):
        return point + 4
    if round_.candidates is not None:
        return 2
    if round_.rows is not None:
        return 5 if round_.row_choice == CHOSEN else 1
    return point + 1 if round_.items is None else (round_.items + 7) // 8


def report_size(round_: Round) -> int:
    """The exact length of every report of this round."""
    return HEADER_SIZE + payload_size(round_) + (MAC_SIZE if round_.issued else 0)


def common_header(round_: Round) -> bytes:
    """How every report of this round begins, but for nonce and level, which are zero."""
    size = payload_size(round_)
    return HEADER.pack(
        MAGIC, VERSION, round_.code, round_.identifier, bytes(NONCE_SIZE), 0, size, 0
    )


def decode(data: bytes) -> Report:
    """The report in `data`, which must hold nothing else. Raises ReportError with a reason.

    The order of the checks is part of the format: the first failure is the counted reason.
    """
    if len(data) < HEADER_SIZE:
        raise ReportError("truncated")
    magic, version, mechanism, round_id, nonce, level, size, reserved = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ReportError("not a report")
    if version != VERSION:
        raise ReportError("unknown version")
    if mechanism not in _NAMES:
        raise _unknown(_RETIRED.get(mechanism))
    if len(data) not in (HEADER_SIZE + size, HEADER_SIZE + size + MAC_SIZE):
        raise ReportError("wrong length")
    if reserved != 0:
        raise ReportError("reserved field used")
    end = HEADER_SIZE + size
    payload = data[HEADER_SIZE:end]
    if CRC.unpack_from(data, HEADER.size)[0] != zlib.crc32(
        payload, zlib.crc32(data[: HEADER.size])
    ):
        raise ReportError("damaged")
    return Report(mechanism, round_id, nonce, level, payload, data[end:])


def decode_json(line: str | bytes) -> Report:
    """The report in one line of JSON, UTF-8: exactly the known keys, each once, of their types."""
    try:
        values = parsed(line)
    except ValueError:
        raise ReportError("not a report") from None
    needed = {"version", "mechanism", "round", "nonce", "level", "payload"}
    if not isinstance(values, dict) or set(values) not in (needed, needed | {"mac"}):
        raise ReportError("not a report")
    if type(values["version"]) is not int or values["version"] != VERSION:
        raise ReportError("unknown version")
    mechanism = values["mechanism"]
    if not isinstance(mechanism, str) or mechanism not in CODES:
        raise _unknown(mechanism)
    level = values["level"]
    if type(level) is not int or not 0 <= level <= 65535:
        raise ReportError("unknown level")
    parts = [_hex(values[name]) for name in ("round", "nonce", "payload")]
    mac = _hex(values["mac"]) if "mac" in values else b""
    if len(parts[0]) != 8 or len(parts[1]) != NONCE_SIZE or len(mac) not in (0, MAC_SIZE):
        raise ReportError("wrong length")
    return Report(CODES[mechanism], parts[0], parts[1], level, parts[2], mac)


def _unknown(mechanism: object) -> ReportError:
    """The refusal of a mechanism that has no reports (any more)."""
    if isinstance(mechanism, str) and mechanism in RETIRED:
        return ReportError("retired mechanism", renamed_value("mechanism", mechanism) or "")
    return ReportError("unknown mechanism")


def _hex(value: object) -> bytes:
    """Lower-case hexadecimal only, so that a report has one spelling."""
    if not isinstance(value, str) or not set(value) <= set("0123456789abcdef") or len(value) % 2:
        raise ReportError("not a report")
    return bytes.fromhex(value)


def split(stream: bytes, round_: Round) -> Iterator[bytes]:
    """The pieces of a concatenation of binary reports, damaged ones included.

    A piece that starts like a report of this round has exactly that round's length; another
    report has the length its header says. Where no report starts, everything up to the next start
    is one piece.
    """
    start = MAGIC + bytes([VERSION])
    own = start + bytes([round_.code]) + round_.identifier
    place, end = 0, len(stream)
    while place < end:
        stop = -1
        if stream.startswith(own, place):
            stop = place + report_size(round_)
        elif stream.startswith(start, place) and end - place >= HEADER_SIZE:
            size = HEADER.unpack_from(stream, place)[6]
            stop = place + HEADER_SIZE + size if size <= LARGEST_PAYLOAD else -1
        if not 0 <= stop <= end:
            stop = stream.find(start, place + 1)
            stop = end if stop < 0 else stop
        yield stream[place:stop]
        place = stop


# -- tickets: nonces that the server issues


@dataclass(frozen=True)
class Ticket:
    """The right to send one report.

    Attributes
    ----------
    round_id, nonce : bytes
        Id of the round, and the nonce.
    level : int
        Registered index of the epsilon level.
    key : bytes
        Key that proves both.
    """

    round_id: bytes
    nonce: bytes
    level: int
    key: bytes

    def to_text(self) -> str:
        """One line, to be handed to one client over an authenticated channel."""
        return f"{self.round_id.hex()}:{self.nonce.hex()}:{self.level}:{self.key.hex()}"

    @classmethod
    def from_text(cls, text: str) -> Ticket:
        try:
            round_id, nonce, level, key = text.strip().split(":")
            found = cls(
                bytes.fromhex(round_id), bytes.fromhex(nonce), int(level), bytes.fromhex(key)
            )
            if (len(found.round_id), len(found.nonce), len(found.key)) != (8, NONCE_SIZE, 32):
                raise ValueError
        except ValueError:
            raise PrivmeanError("the ticket cannot be read. Ask for it again.") from None
        return found


def ticket_key(secret: bytes, round_id: bytes, nonce: bytes, level: int) -> bytes:
    """The key of a ticket; the server keeps only `secret` and derives it again."""
    return hashlib.blake2b(
        round_id + nonce + struct.pack("<H", level),
        digest_size=32,
        key=secret,
        person=b"privmean-ticket",
    ).digest()


def authentication(key: bytes, body: bytes) -> bytes:
    """The 32-byte code that proves a report to come from the holder of the ticket."""
    return hmac.digest(key, body, "sha256")
