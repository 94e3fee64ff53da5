/** Randomizers of a vector in an l2 ball. Proofs: docs/proofs/local-ball.md. */
import { ascii, concat, littleEndian } from "./bytes.js";
import { direction, exactSum } from "./domain.js";
import { chanceThreshold, flipThreshold } from "./exact.js";
import { shake128 } from "./hashes.js";

/** Standard normals from an even number of words (Box and Muller); no private value touches them. */
function normals(words) {
  const result = [];
  for (let k = 0; k < words.length; k += 2) {
    const radius = Math.sqrt(-2 * Math.log((Number(words[k] >> 11n) + 1) * 2 ** -53));
    const angle = 2 * Math.PI * (Number(words[k + 1] >> 11n) * 2 ** -53);
    result.push(radius * Math.cos(angle), radius * Math.sin(angle));
  }
  return result;
}

/** V: a unit vector with E[r V] = x, drawn as u with probability 1/2 + rho/(2r), else -u. */
export function pole(round, value, entropy) {
  const [u, share] = direction(round, value);
  return entropy.coin(chanceThreshold(0.5 + 0.5 * share)) ? u : u.map((item) => -item);
}

/** Whether u's side of the hemisphere is sent: that of the pole, flipped by randomized response. */
function side(round, level, v, u, entropy) {
  const along = exactSum(u.map((item, k) => item * v[k])) >= 0;
  return along !== entropy.coin(flipThreshold(round.menu[level]));
}

/** The public direction (not normalised) that a nonce assigns, or one of several. */
export function publicDirection(round, nonce, person = "privmean-ball", number = new Uint8Array(0)) {
  const size = round.dimension + (round.dimension % 2);
  const data = shake128(concat(ascii(person), round.seed, nonce, number), 8 * size);
  const words = Array.from({ length: size }, (_, k) => littleEndian(data.subarray(8 * k, 8 * k + 8)));
  return normals(words).slice(0, round.dimension);
}

/** Hemisphere mechanism with a public direction: only the sign is sent. */
export function ballBit(round, level, value, nonce, entropy) {
  const u = publicDirection(round, nonce);
  const v = pole(round, value, entropy);
  return Uint8Array.of(side(round, level, v, u, entropy) ? 1 : 0);
}

/** The vector divided by its norm (the first axis if that is zero). */
export function unit(vector) {
  const norm = Math.sqrt(exactSum(vector.map((item) => item * item)));
  return vector.map((item, k) => (norm === 0 ? Number(k === 0) : item / norm));
}
