/** The bytes of a report: a 42-byte header, a payload, and a code where nonces are issued. */
import { ascii, concat, crc32, equal, hex, littleEndian, toLittleEndian, unhex } from "./bytes.js";
import { PrivmeanError, ReportError } from "./errors.js";
import { hmac } from "./hashes.js";
import { CODES, RETIRED } from "./mechanisms.js";

export const HEADER_SIZE = 42;
const MAGIC = ascii("LD");
const VERSION = 1;
const MAC_SIZE = 32;
const NAMES = Object.fromEntries(Object.entries(CODES).map(([name, code]) => [code, name]));
const RESERVED = Object.values(RETIRED).map(({ code }) => code);

/** Header and payload: what the authentication code covers. */
export function encode(round, nonce, level, payload, key = null) {
  const head = concat(
    MAGIC,
    Uint8Array.of(VERSION, round.code),
    round.identifier,
    nonce,
    toLittleEndian(level, 2),
    toLittleEndian(payload.length, 4),
    new Uint8Array(4),
  );
  const body = concat(head, toLittleEndian(crc32(head, payload), 4), payload);
  return key === null ? body : concat(body, hmac(key, body));
}

/** The parts of one binary report; ReportError with the reason that a server would count. */
export function decode(data) {
  if (data.length < HEADER_SIZE) throw new ReportError("truncated");
  if (!equal(data.subarray(0, 2), MAGIC)) throw new ReportError("not a report");
  if (data[2] !== VERSION) throw new ReportError("unknown version");
  if (RESERVED.includes(data[3])) throw new ReportError("retired mechanism");
  if (!Object.hasOwn(NAMES, data[3])) throw new ReportError("unknown mechanism");
  const size = Number(littleEndian(data.subarray(30, 34)));
  const end = HEADER_SIZE + size;
  if (data.length !== end && data.length !== end + MAC_SIZE) throw new ReportError("wrong length");
  if (data.subarray(34, 38).some((byte) => byte)) throw new ReportError("reserved field used");
  const payload = data.slice(HEADER_SIZE, end);
  if (Number(littleEndian(data.subarray(38, 42))) !== crc32(data.subarray(0, 38), payload)) {
    throw new ReportError("damaged");
  }
  return {
    mechanism: NAMES[data[3]],
    round: hex(data.subarray(4, 12)),
    nonce: data.slice(12, 28),
    level: Number(littleEndian(data.subarray(28, 30))),
    payload,
    mac: data.slice(end),
  };
}

/** The same report as one line of JSON. */
export function toJson(data) {
  const { mechanism, round, nonce, level, payload, mac } = decode(data);
  const values = { version: VERSION, mechanism, round, nonce: hex(nonce), level, payload: hex(payload) };
  return JSON.stringify(mac.length ? { ...values, mac: hex(mac) } : values);
}

/** The right to send one report: a nonce, a registered level, and the key that proves both. */
export class Ticket {
  constructor(round, nonce, level, key) {
    Object.assign(this, { round, nonce, level, key });
    Object.freeze(this);
  }

  static fromText(text) {
    const match = /^([0-9a-f]{16}):([0-9a-f]{32}):([0-9]{1,5}):([0-9a-f]{64})$/.exec(String(text).trim());
    if (!match) throw new PrivmeanError("the ticket cannot be read; ask for it again");
    return new Ticket(match[1], unhex(match[2]), Number(match[3]), unhex(match[4]));
  }
}
