import { blake2b } from "./hashes.js";
import { ascii, littleEndian } from "./bytes.js";
import { ArgumentError } from "./errors.js";

/** Text as UTF-8; a surrogate alone becomes three bytes, so that no two names are the same. */
export function utf8(text) {
  const result = [];
  for (const sign of text) {
    const code = sign.codePointAt(0);
    if (code < 0x80) result.push(code);
    else if (code < 0x800) result.push(0xc0 | (code >> 6), 0x80 | (code & 63));
    else if (code < 0x10000) {
      result.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    } else {
      const rest = [12, 6, 0].map((shift) => 0x80 | ((code >> shift) & 63));
      result.push(0xf0 | (code >> 18), ...rest);
    }
  }
  return Uint8Array.from(result);
}

/** Whether the client with this public identity answers. Never depends on its data. */
export function chosen({ seed, shares, index }, identity) {
  if (typeof identity !== "string") {
    throw new ArgumentError("identity", "is no text", "give the public name as text");
  }
  const options = { size: 16, key: seed, person: ascii("privmean-part") };
  const total = shares.reduce((sum, share) => sum + BigInt(share), 0n);
  const place = littleEndian(blake2b(utf8(identity), options)) % total;
  const low = shares.slice(0, index).reduce((sum, share) => sum + BigInt(share), 0n);
  return low <= place && place < low + BigInt(shares[index]);
}
