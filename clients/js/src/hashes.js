/**
 * BLAKE2b, SHAKE-128, SHA-256 and HMAC, synchronous: a report is drawn inside one transaction of
 * the ledger, and Web Crypto's own digests (which lack the first two) would end it.
 */
import { concat, littleEndian, toLittleEndian } from "./bytes.js";

const MASK = (1n << 64n) - 1n;

// The fractional parts of the square roots of the first eight primes: start of BLAKE2b and SHA-512.
const START = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];

const ORDER = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

const turned = (value, bits) => (value >> bits) | ((value << (64n - bits)) & MASK);

function mix(v, a, b, c, d, x, y) {
  v[a] = (v[a] + v[b] + x) & MASK;
  v[d] = turned(v[d] ^ v[a], 32n);
  v[c] = (v[c] + v[d]) & MASK;
  v[b] = turned(v[b] ^ v[c], 24n);
  v[a] = (v[a] + v[b] + y) & MASK;
  v[d] = turned(v[d] ^ v[a], 16n);
  v[c] = (v[c] + v[d]) & MASK;
  v[b] = turned(v[b] ^ v[c], 63n);
}

function compress(h, block, count, last) {
  const m = Array.from({ length: 16 }, (_, k) => littleEndian(block.subarray(8 * k, 8 * k + 8)));
  const v = [...h, ...START];
  v[12] ^= BigInt(count);
  if (last) v[14] ^= MASK;
  for (let round = 0; round < 12; round++) {
    const s = ORDER[round % 10];
    for (let k = 0; k < 4; k++) mix(v, k, 4 + k, 8 + k, 12 + k, m[s[2 * k]], m[s[2 * k + 1]]);
    for (let k = 0; k < 4; k++) {
      const [b, c, d] = [4 + ((k + 1) % 4), 8 + ((k + 2) % 4), 12 + ((k + 3) % 4)];
      mix(v, k, b, c, d, m[s[8 + 2 * k]], m[s[9 + 2 * k]]);
    }
  }
  for (let k = 0; k < 8; k++) h[k] ^= v[k] ^ v[k + 8];
}

/** BLAKE2b (RFC 7693) with its key and its 16 bytes of personalization (zeros are appended). */
export function blake2b(data, { size = 64, key = new Uint8Array(0), person = new Uint8Array(0) } = {}) {
  const parameters = new Uint8Array(64);
  parameters.set([size, key.length, 1, 1]);
  parameters.set(person, 48);
  const h = START.map((word, k) => word ^ littleEndian(parameters.subarray(8 * k, 8 * k + 8)));
  const head = new Uint8Array(key.length ? 128 : 0);
  head.set(key);
  const whole = concat(head, data);
  const blocks = Math.max(1, Math.ceil(whole.length / 128));
  for (let k = 0; k < blocks; k++) {
    const block = new Uint8Array(128);
    block.set(whole.subarray(128 * k, 128 * k + 128));
    compress(h, block, Math.min(128 * (k + 1), whole.length), k === blocks - 1);
  }
  return concat(...h.map((word) => toLittleEndian(word, 8))).slice(0, size);
}

// Keccak-f[1600] on 25 lanes of two 32-bit halves (low, high).
const ROTATION = [
  0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14,
];

const CONSTANTS = (() => {
  const result = [];
  let shift = 1;
  for (let round = 0; round < 24; round++) {
    let [low, high] = [0, 0];
    for (let k = 0; k < 7; k++) {
      if (shift & 1) {
        const bit = 2 ** k - 1;
        if (bit < 32) low |= 1 << bit;
        else high |= 1 << (bit - 32);
      }
      shift = shift & 0x80 ? ((shift << 1) ^ 0x171) & 0xff : shift << 1;
    }
    result.push([low, high]);
  }
  return result;
})();

function permute(state) {
  const c = new Int32Array(10);
  const b = new Int32Array(50);
  for (const [low, high] of CONSTANTS) {
    for (let k = 0; k < 10; k++) {
      c[k] = state[k] ^ state[k + 10] ^ state[k + 20] ^ state[k + 30] ^ state[k + 40];
    }
    for (let x = 0; x < 5; x++) {
      const before = 2 * ((x + 4) % 5);
      const after = 2 * ((x + 1) % 5);
      const first = c[before] ^ ((c[after] << 1) | (c[after + 1] >>> 31));
      const second = c[before + 1] ^ ((c[after + 1] << 1) | (c[after] >>> 31));
      for (let y = 0; y < 25; y += 5) {
        state[2 * (x + y)] ^= first;
        state[2 * (x + y) + 1] ^= second;
      }
    }
    for (let x = 0; x < 5; x++) {
      for (let y = 0; y < 5; y++) {
        const from = x + 5 * y;
        const to = 2 * (y + 5 * ((2 * x + 3 * y) % 5));
        const bits = ROTATION[from];
        let [one, two] = [state[2 * from], state[2 * from + 1]];
        if (bits >= 32) [one, two] = [two, one];
        const n = bits % 32;
        b[to] = n ? (one << n) | (two >>> (32 - n)) : one;
        b[to + 1] = n ? (two << n) | (one >>> (32 - n)) : two;
      }
    }
    for (let y = 0; y < 50; y += 10) {
      for (let k = 0; k < 10; k++) {
        state[y + k] = b[y + k] ^ (~b[y + ((k + 2) % 10)] & b[y + ((k + 4) % 10)]);
      }
    }
    state[0] ^= low;
    state[1] ^= high;
  }
}

/** `size` bytes of SHAKE-128 (FIPS 202). */
export function shake128(data, size) {
  const rate = 168;
  const padded = new Uint8Array(Math.ceil((data.length + 1) / rate) * rate);
  padded.set(data);
  padded[data.length] ^= 0x1f;
  padded[padded.length - 1] ^= 0x80;
  const state = new Int32Array(50);
  const words = new DataView(padded.buffer);
  for (let start = 0; start < padded.length; start += rate) {
    for (let k = 0; k < rate / 4; k++) state[k] ^= words.getInt32(start + 4 * k, true);
    permute(state);
  }
  const result = new Uint8Array(Math.ceil(size / rate) * rate);
  const out = new DataView(result.buffer);
  for (let start = 0; start < size; start += rate) {
    if (start) permute(state);
    for (let k = 0; k < rate / 4; k++) out.setInt32(start + 4 * k, state[k], true);
  }
  return result.slice(0, size);
}

const PRIMES = (() => {
  const result = [];
  for (let n = 2; result.length < 64; n++) if (result.every((p) => n % p)) result.push(n);
  return result;
})();

/** The first 32 bits after the point of an integer's root, in integers alone. */
function fraction(prime, degree) {
  const wanted = BigInt(prime) << BigInt(32 * degree);
  let [low, high] = [0n, 1n << 41n];
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** BigInt(degree) <= wanted) low = middle;
    else high = middle;
  }
  return Number(low & 0xffffffffn) | 0;
}

const ROOTS = PRIMES.slice(0, 8).map((prime) => fraction(prime, 2));
const CUBES = PRIMES.map((prime) => fraction(prime, 3));

/** SHA-256 (FIPS 180-4). */
export function sha256(data) {
  const padded = new Uint8Array(Math.ceil((data.length + 9) / 64) * 64);
  padded.set(data);
  padded[data.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(data.length) * 8n);
  const h = Int32Array.from(ROOTS);
  const w = new Int32Array(64);
  const turn = (x, n) => (x >>> n) | (x << (32 - n));
  for (let start = 0; start < padded.length; start += 64) {
    for (let k = 0; k < 16; k++) w[k] = view.getInt32(start + 4 * k);
    for (let k = 16; k < 64; k++) {
      const [x, y] = [w[k - 15], w[k - 2]];
      const small = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
      w[k] = w[k - 16] + small + w[k - 7] + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
    }
    let [a, b, c, d, e, f, g, last] = h;
    for (let k = 0; k < 64; k++) {
      const first =
        (last + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + CUBES[k] + w[k]) | 0;
      const second =
        ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [a, b, c, d, e, f, g, last] = [(first + second) | 0, a, b, c, (d + first) | 0, e, f, g];
    }
    [a, b, c, d, e, f, g, last].forEach((word, k) => (h[k] = (h[k] + word) | 0));
  }
  const result = new DataView(new ArrayBuffer(32));
  h.forEach((word, k) => result.setInt32(4 * k, word));
  return new Uint8Array(result.buffer);
}

/** HMAC-SHA-256 (RFC 2104). */
export function hmac(key, data) {
  const block = new Uint8Array(64);
  block.set(key.length > 64 ? sha256(key) : key);
  const padded = (byte) => block.map((item) => item ^ byte);
  return sha256(concat(padded(0x5c), sha256(concat(padded(0x36), data))));
}
