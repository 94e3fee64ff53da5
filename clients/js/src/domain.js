/**
 * A private value becomes a point of the public domain. Total: no value throws, whatever it is.
 * What is missing, no number, or of the wrong shape becomes the null of its domain: the middle of
 * a range, the zero vector, or no item.
 */

const DECIMAL = /^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$/;

/** A double; NaN for anything that is none. Too large integers are infinite. */
export function real(value) {
  switch (typeof value) {
    case "number":
      return value;
    case "bigint":
    case "boolean":
      return Number(value);
    case "string":
      return DECIMAL.test(value) ? Number(value) : NaN;
    default:
      return NaN;
  }
}

/** `size` doubles; all NaN for anything of another shape. */
export function reals(value, size) {
  const missing = new Array(size).fill(NaN);
  if (value === null || value === undefined || typeof value === "string") return missing;
  const result = [];
  try {
    if (typeof value[Symbol.iterator] !== "function") return size === 1 ? [real(value)] : missing;
    for (const item of value) {
      result.push(real(item));
      if (result.length > size) break; // it may have no end
    }
  } catch {
    return missing;
  }
  return result.length === size ? result : missing;
}

function picked(round, value, nonce) {
  const place = round.coordinate(nonce);
  return [reals(value, round.coordinates)[place], round.lower[place], round.upper[place]];
}

const clipped = (x, low, high) => Math.min(Math.max(x, low), high);

/** The value clipped to its range and mapped to [-1, 1]; 0 for a null. */
export function unitValue(round, value, nonce) {
  const [raw, low, high] = picked(round, value, nonce);
  if (Number.isNaN(raw)) return 0;
  const x = clipped(raw, low, high);
  return clipped((x - low - (high - x)) / (high - low), -1, 1);
}

/** The item or the bin of the value; `other` for what is no item; null for none. */
export function item(round, value, nonce) {
  if (round.bins !== null) {
    const [raw, low, high] = picked(round, value, nonce);
    if (Number.isNaN(raw)) return null;
    const place = ((clipped(raw, low, high) - low) / (high - low)) * round.bins;
    return Math.min(Math.trunc(place), round.bins - 1);
  }
  const x = real(value);
  return Number.isInteger(x) && x >= 0 && x < round.items ? x + 0 : round.other;
}

/** The correctly rounded sum (Shewchuk 1997), so that all languages have the same. */
export function exactSum(values) {
  const parts = [];
  for (let x of values) {
    let kept = 0;
    for (let y of parts) {
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const high = x + y;
      const low = y - (high - x);
      if (low) parts[kept++] = low;
      x = high;
    }
    parts.length = kept;
    parts.push(x);
  }
  let place = parts.length;
  if (!place) return 0;
  let [sum, low] = [parts[--place], 0];
  while (place > 0 && !low) {
    const [x, y] = [sum, parts[--place]];
    sum = x + y;
    low = y - (sum - x);
  }
  if (place > 0 && ((low < 0 && parts[place - 1] < 0) || (low > 0 && parts[place - 1] > 0))) {
    const twice = 2 * low; // a tie that the rest breaks
    if (sum + twice - sum === twice) sum += twice;
  }
  return sum;
}

/** A unit vector u and rho/r in [0, 1] with rho u the value clipped to the ball. */
export function direction(round, value) {
  let x = reals(value, round.dimension);
  const axis = x.map((_, k) => (k ? 0 : 1));
  if (x.some(Number.isNaN)) return [axis, 0];
  const largest = x.reduce((most, item) => Math.max(most, Math.abs(item)), 0);
  if (largest === 0) return [axis, 0];
  x = Number.isFinite(largest)
    ? x.map((item) => item / largest)
    : x.map((item) => (Number.isFinite(item) ? 0 : Math.sign(item)));
  const norm = Math.sqrt(exactSum(x.map((item) => item * item)));
  return [x.map((item) => item / norm), Math.min((largest / round.radius) * norm, 1)];
}
