/** Randomizers of one number in [-1, 1]. Proofs: docs/proofs/local-scalar.md. */
import { unitValue } from "./domain.js";
import {
  WORD,
  atMost,
  chanceThreshold,
  decayed,
  flipThreshold,
  halved,
  nearest,
  oddsThreshold,
  ratio,
} from "./exact.js";

const HYBRID_START = { n: 61n, d: 100n };

export function int32(value) {
  const result = new DataView(new ArrayBuffer(4));
  result.setInt32(0, Number(value), true);
  return new Uint8Array(result.buffer);
}

/** N: the bit is 1 iff word < N. Between T and 2^64 - T for every x in [-1, 1]. */
export function bitThreshold(epsilon, x) {
  const [top, bottom] = ratio(x);
  return WORD / 2n + nearest(top * (WORD / 2n - flipThreshold(epsilon)), bottom);
}

/** One-bit mean (Duchi, Jordan and Wainwright 2018). */
export function oneBit(round, level, value, nonce, entropy) {
  const x = unitValue(round, value, nonce);
  return Uint8Array.of(entropy.coin(bitThreshold(round.menu[level], x)) ? 1 : 0);
}

/** Unbiased rounding of a real position to an integer. */
function gridPoint(position, entropy) {
  const low = Math.floor(position);
  return BigInt(low) + (entropy.coin(chanceThreshold(position - low)) ? 1n : 0n);
}

const windows = new Map();

/** The piecewise mechanism's window on -size..size: width + 1 likely outcomes, and the rest. */
export function windowOf(epsilon) {
  const name = `${epsilon.n}/${epsilon.d}`;
  if (!windows.has(name)) windows.set(name, makeWindow(epsilon));
  return windows.get(name);
}

function makeWindow(epsilon) {
  const size = 2n ** 15n;
  const share = nearest((2n * size + 1n) * flipThreshold(halved(epsilon)), WORD);
  const width = share > 1n ? share - 1n : 0n;
  const outside = 2n * size - width;
  return { size, width, outside, threshold: oddsThreshold(epsilon, width + 1n, outside) };
}

export function piecewiseValue(epsilon, x, entropy) {
  const { size, width, outside, threshold } = windowOf(epsilon);
  const start = gridPoint(((x + 1) / 2) * Number(outside), entropy) - size;
  const inside = entropy.coin(threshold);
  const choice = entropy.below(inside ? width + 1n : outside);
  if (inside) return start + choice;
  const y = choice - size;
  return y < start ? y : y + width + 1n;
}

/** Piecewise mechanism (Wang et al. 2019) on a grid, with integer probabilities. */
export function piecewise(round, level, value, nonce, entropy) {
  return int32(piecewiseValue(round.menu[level], unitValue(round, value, nonce), entropy));
}

/** Of 2^32 public branch numbers, those below this one take the piecewise branch. */
export function hybridShare(epsilon) {
  return atMost(epsilon, HYBRID_START) ? 0n : 2n ** 32n - decayed(2n ** 32n, halved(epsilon));
}

/** Piecewise where the nonce says so, else one bit (sent as +1 or -1). */
export function hybrid(round, level, value, nonce, entropy) {
  if (round.selector(nonce) >> 32n < hybridShare(round.menu[level])) {
    return piecewise(round, level, value, nonce, entropy);
  }
  return int32(oneBit(round, level, value, nonce, entropy)[0] ? 1 : -1);
}
