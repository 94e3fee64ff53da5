import { ArgumentError } from "./errors.js";

const DIGITS = /^([0-9a-f]{2})*$/;

export const ascii = (text) => Uint8Array.from(text, (sign) => sign.charCodeAt(0));

export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Bytes of lower-case hexadecimal digits, in pairs. */
export function unhex(text) {
  if (typeof text !== "string" || !DIGITS.test(text)) {
    throw new ArgumentError("text", "is no lower-case hexadecimal", "give pairs of 0-9a-f");
  }
  return Uint8Array.from({ length: text.length / 2 }, (_, k) =>
    Number.parseInt(text.slice(2 * k, 2 * k + 2), 16),
  );
}

export function concat(...parts) {
  const result = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) {
    result.set(part, place);
    place += part.length;
  }
  return result;
}

export function equal(first, second) {
  return first.length === second.length && first.every((byte, k) => byte === second[k]);
}

/** The little-endian integer of all these bytes. */
export function littleEndian(bytes) {
  let result = 0n;
  for (let k = bytes.length - 1; k >= 0; k--) result = (result << 8n) | BigInt(bytes[k]);
  return result;
}

/** `size` bytes, little-endian. */
export function toLittleEndian(value, size) {
  const result = new Uint8Array(size);
  let rest = BigInt(value);
  for (let k = 0; k < size; k++) {
    result[k] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  return result;
}

const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let k = 0; k < 8; k++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

/** CRC-32 of the concatenated parts, as in zip and PNG. */
export function crc32(...parts) {
  let state = 0xffffffff;
  for (const part of parts) {
    for (const byte of part) state = CRC[(state ^ byte) & 0xff] ^ (state >>> 8);
  }
  return (state ^ 0xffffffff) >>> 0;
}
