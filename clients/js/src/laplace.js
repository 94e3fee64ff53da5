/**
 * Discrete Laplace noise from one 256-bit number, by the same operations for every draw. Proof:
 * docs/proofs/local-scalar.md.
 */
import { littleEndian } from "./bytes.js";
import { WORD, fixedPowerOfE, fraction } from "./exact.js";

const BITS = 256n; // of the uniform number
const GUARD = 384n; // of the products that it is compared with
const REACH = 60n; // noise beyond so many scales is cut with the report: less than 1e-26 of all
const LARGEST = 2n ** 31n - 1n;

const laws = new Map();

/**
 * P(|noise| >= j) is about 2 q^j/(1 + q), q = e^(-1/scale): `first` is 2/(1 + q) and `powers` are
 * q^(2^i), i falling to 0, all times 2^384. Reports are clamped to +-limit, on the grid.
 */
export function noiseLaw(scale, steps) {
  const name = `${scale.n}/${scale.d} ${steps}`;
  if (!laws.has(name)) laws.set(name, makeLaw(scale, steps));
  return laws.get(name);
}

function makeLaw(scale, steps) {
  // 2^-64 of epsilon pays for the rounding of the thresholds
  const rate = fraction((WORD - 1n) * scale.d, WORD * scale.n);
  const reach = (REACH * scale.n + scale.d - 1n) / scale.d + steps;
  const limit = reach < LARGEST ? reach : LARGEST;
  const digits = (limit + steps).toString(2).length;
  const powers = Array.from({ length: digits }, (_, k) => {
    const { bits, value } = fixedPowerOfE(fraction(rate.n << BigInt(digits - 1 - k), rate.d));
    return (1n << (bits + GUARD)) / value;
  });
  const { bits, value } = fixedPowerOfE(rate);
  const first = (value << (GUARD + 1n)) / (value + (1n << bits));
  return { first, powers, limit };
}

/** The largest j with uniform < 2^256 P(|noise| >= j). */
export function magnitude({ first, powers }, uniform) {
  const top = 1n << GUARD;
  const wanted = (uniform << (GUARD - BITS)) + top;
  let product = first + top;
  let size = 0n;
  for (const power of powers) {
    const next = ((product * power) >> GUARD) + top - power;
    const hit = wanted < next;
    product = hit ? next : product;
    size = 2n * size + (hit ? 1n : 0n);
  }
  return size;
}

/** point + noise, clamped to +-limit. Five words of entropy. */
export function noisy(law, point, entropy) {
  const size = magnitude(law, littleEndian(entropy.bytes(Number(BITS / 8n))));
  const y = point + (entropy.fair() ? -size : size);
  return y < -law.limit ? -law.limit : y > law.limit ? law.limit : y;
}
