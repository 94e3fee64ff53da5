/**
 * Integers behind every coin: fractions, powers of e to 600 bits, thresholds of 64-bit words.
 *
 * A coin comes up iff word < threshold. Every threshold is rounded to the side on which the ratio
 * of probabilities stays at most e^epsilon, so the promise holds for the integers really used.
 */
import { ArgumentError } from "./errors.js";

export const WORD = 1n << 64n;
const BITS = 704n; // of fixed-point numbers; 600 of them are right
const SLACK = (1n << BITS) / 10n ** 60n; // far above the error, far below anything that matters

const NUMBER =
  /^(?:([0-9]{1,50})\/([0-9]{1,50})|(?:([0-9]{1,40})(?:\.([0-9]{0,40}))?|\.([0-9]{1,40}))(?:[eE]([+-]?[0-9]{1,2}))?)$/;

const gcd = (a, b) => (b ? gcd(b, a % b) : a);

/** An exact non-negative fraction {n, d} in lowest terms. */
export function fraction(n, d = 1n) {
  const common = gcd(n, d) || 1n;
  return { n: n / common, d: d / common };
}

export const plus = (a, b) => fraction(a.n * b.d + b.n * a.d, a.d * b.d);
export const atMost = (a, b) => a.n * b.d <= b.n * a.d;
export const asNumber = (a) => Number((a.n << 128n) / a.d) / 2 ** 128;

/** The fraction that a number's shortest decimal form, or a text, says. */
export function readFraction(name, value) {
  const match = NUMBER.exec(typeof value === "number" ? String(value) : String(value).trim());
  const kind = typeof value;
  if (!match || (kind !== "number" && kind !== "string")) {
    throw new ArgumentError(name, "is no plain number", "give a decimal number or a fraction p/q");
  }
  const [, top, bottom, whole, part, bare, exponent] = match;
  if (top !== undefined) {
    if (BigInt(bottom) === 0n) throw new ArgumentError(name, "divides by zero", "correct it");
    return fraction(BigInt(top), BigInt(bottom));
  }
  const places = part ?? bare ?? "";
  const scale = Number(exponent ?? 0) - places.length;
  const digits = BigInt((whole ?? "") + places);
  return scale >= 0 ? fraction(digits * 10n ** BigInt(scale)) : fraction(digits, 10n ** BigInt(-scale));
}

const SMALLEST = { n: 1n, d: 1000n };
const LARGEST = { n: 16n, d: 1n };

/** epsilon as an exact fraction from 1/1000 to 16. */
export function exactEpsilon(name, value) {
  const known = typeof value === "object" && value !== null && typeof value.n === "bigint";
  const epsilon = known ? value : readFraction(name, value);
  if (!atMost(SMALLEST, epsilon) || !atMost(epsilon, LARGEST)) {
    throw new ArgumentError(name, "is outside the range of local reports", "choose 0.001 to 16");
  }
  if (epsilon.d > 10n ** 45n) throw new ArgumentError(name, "has too many digits", "round it");
  return epsilon;
}

/** The shortest exact text: a decimal of at most 28 digits where there is one, else p/q. */
export function fractionText({ n, d }) {
  let [rest, twos, fives] = [d, 0, 0];
  while (rest % 2n === 0n) [rest, twos] = [rest / 2n, twos + 1];
  while (rest % 5n === 0n) [rest, fives] = [rest / 5n, fives + 1];
  const places = Math.max(twos, fives);
  const digits = ((n * 10n ** BigInt(places)) / d).toString();
  if (rest !== 1n || digits.length > 28) return `${n}/${d}`;
  if (places === 0) return digits;
  const padded = digits.padStart(places + 1, "0");
  return `${padded.slice(0, -places)}.${padded.slice(-places)}`;
}

/** The integer nearest to n/d (d > 0), ties to the even one. */
export function nearest(n, d) {
  let whole = n / d;
  if (n < 0n && whole * d !== n) whole -= 1n; // floor
  const twice = 2n * (n - whole * d);
  return twice > d || (twice === d && whole % 2n !== 0n) ? whole + 1n : whole;
}

const view = new DataView(new ArrayBuffer(8));

/** A finite double as an exact ratio [numerator, denominator], the latter a power of two. */
export function ratio(x) {
  view.setFloat64(0, x);
  const bits = view.getBigUint64(0);
  const exponent = Number((bits >> 52n) & 0x7ffn);
  const mantissa = (bits & ((1n << 52n) - 1n)) | (exponent ? 1n << 52n : 0n);
  const signed = bits >> 63n ? -mantissa : mantissa;
  const power = BigInt(Math.max(exponent, 1) - 1075);
  return power >= 0n ? [signed << power, 1n] : [signed, 1n << -power];
}

/** 2^704 e^(n/d), right to 600 bits, for n/d up to some thousands. */
function fixedPowerOfE({ n, d }) {
  const small = (n << BITS) / (d << 20n); // x/2^20: each term brings eight bits or more
  let [sum, term] = [1n << BITS, 1n << BITS];
  for (let k = 1n; term > 0n; k++) {
    term = (term * small) / (k << BITS);
    sum += term;
  }
  for (let k = 0; k < 20; k++) sum = (sum * sum) >> BITS;
  return sum;
}

const powers = new Map();

/** 2^704 e^epsilon, kept. */
export function powerOfE(epsilon) {
  const name = `${epsilon.n}/${epsilon.d}`;
  if (!powers.has(name)) powers.set(name, fixedPowerOfE(epsilon));
  return powers.get(name);
}

const ceiling = (fixed) => (fixed + SLACK + (1n << BITS) - 1n) >> BITS;

/** T(epsilon) = ceil(2^64/(1 + e^epsilon)): a bit is flipped iff word < T. */
export function flipThreshold(epsilon) {
  return ceiling((WORD << (2n * BITS)) / ((1n << BITS) + powerOfE(epsilon)));
}

/** The largest N with N/(2^64 - N) at most e^epsilon favoured/other. */
export function oddsThreshold(epsilon, favoured, other) {
  const total = powerOfE(epsilon) * favoured + (other << BITS);
  return WORD - ceiling(((WORD * other) << (2n * BITS)) / total);
}

/** The integer nearest to size/e^epsilon. */
export function decayed(size, epsilon) {
  return nearest(size << BITS, powerOfE(epsilon));
}

/** round(2^64 chance), clamped to 0..2^64. */
export function chanceThreshold(chance) {
  const [n, d] = ratio(chance);
  const wanted = nearest(n * WORD, d);
  return wanted < 0n ? 0n : wanted > WORD ? WORD : wanted;
}

export const halved = ({ n, d }) => fraction(n, 2n * d);
