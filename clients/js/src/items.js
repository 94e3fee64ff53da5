/** Randomizers of an item. Proofs: docs/proofs/local-items.md. */
import { ascii, concat, toLittleEndian } from "./bytes.js";
import { item } from "./domain.js";
import { WORD, flipThreshold, nearest, oddsThreshold } from "./exact.js";
import { blake2b } from "./hashes.js";

/** Whether s(row, column) of the sketch is +1. */
function sketchSign(seed, row, column) {
  const place = concat(toLittleEndian(column, 8), toLittleEndian(row / 512n, 4));
  const block = blake2b(place, { key: seed, person: ascii("hldp-jl-v1") });
  const k = Number(row % 512n);
  return ((block[k >> 3] >> (k & 7)) & 1) === 0;
}

/** Whether the number of common ones is even. */
function hadamardSign(row, column) {
  let common = row & BigInt(column);
  let even = true;
  for (; common; common &= common - 1n) even = !even;
  return even;
}

/** One bit: the sign of the item in a row drawn without looking at it. A null sends a fair bit. */
export function rowBit(round, level, value, nonce, entropy) {
  const own = round.row_choice === "chosen";
  const row = own ? entropy.below(BigInt(round.rows)) : round.row(nonce);
  const v = item(round, value, nonce);
  let bit;
  if (v === null) {
    bit = entropy.fair();
  } else {
    const flip = entropy.coin(flipThreshold(round.menu[level]));
    const sign = round.mechanism === "hadamard" ? hadamardSign(row, v) : sketchSign(round.seed, row, v);
    bit = sign !== flip;
  }
  return concat(own ? toLittleEndian(row, 4) : new Uint8Array(0), Uint8Array.of(bit ? 1 : 0));
}

/** Bit v of the result is bit v mod 8 of byte v div 8. */
function pack(size, bit) {
  const result = new Uint8Array((size + 7) >> 3);
  for (let v = 0; v < size; v++) if (bit(v)) result[v >> 3] |= 1 << (v & 7);
  return result;
}

/** How many items a report holds. */
export function subsetSize(epsilon, items) {
  const wanted = nearest(BigInt(items) * flipThreshold(epsilon), WORD);
  const least = wanted < 1n ? 1n : wanted;
  return least > BigInt(items - 1) ? BigInt(items - 1) : least;
}

/** Subset selection (Ye and Barg 2018). A null plays a uniform item. */
export function subset(round, level, value, nonce, entropy) {
  const [items, epsilon] = [round.items, round.menu[level]];
  const size = subsetSize(epsilon, items);
  const v = item(round, value, nonce) ?? Number(entropy.below(BigInt(items)));
  const inside = entropy.coin(oddsThreshold(epsilon, size, BigInt(items) - size));
  let needed = size - (inside ? 1n : 0n);
  return pack(items, (k) => {
    if (k === v) return inside;
    const left = BigInt(items - k - (k < v ? 1 : 0)); // sequential choice without replacement
    const taken = entropy.below(left) < needed;
    if (taken) needed -= 1n;
    return taken;
  });
}
