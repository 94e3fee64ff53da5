/**
 * The exact law of every mechanism, by enumeration of its coins: each path through a randomizer
 * has an exact rational chance. What one report may tell apart is then a comparison of integers.
 */
import assert from "node:assert/strict";
import test from "node:test";
import { hex } from "../src/bytes.js";
import { RANDOMIZERS } from "../src/client.js";
import { Entropy } from "../src/entropy.js";
import { WORD, fraction, plus, powerOfE } from "../src/exact.js";
import { Round } from "../src/round.js";
import { discreteLaplace, exponentialCoin } from "../src/scalar.js";

const BITS = 704n;
const SEED = "5a".repeat(32);
const times = (a, b) => ({ n: a.n * b.n, d: a.d * b.d });
const ONE = fraction(1n);

/** Coins that follow a path of choices, and remember where it forks. */
class Path extends Entropy {
  constructor(choices, least) {
    super();
    Object.assign(this, { choices, least, made: [], chance: ONE });
  }

  #choose(of, chanceOf) {
    const k = this.choices[this.made.length] ?? 0;
    this.made.push({ k, of });
    this.chance = times(this.chance, chanceOf(k));
    if (this.least && this.chance.n * this.least.d < this.least.n * this.chance.d) throw this;
    return k;
  }

  coin(threshold) {
    if (threshold === 0n || threshold === WORD) return threshold > 0n;
    const chances = [fraction(threshold, WORD), fraction(WORD - threshold, WORD)];
    return this.#choose(2, (k) => chances[k]) === 0;
  }

  below(bound) {
    return BigInt(this.#choose(Number(bound), () => fraction(1n, bound)));
  }
}

/** The law of `draw(entropy)`: a map from outcome to exact chance. Paths below `least` are left. */
function lawOf(draw, least = null) {
  const law = new Map();
  let choices = [];
  let left = fraction(0n);
  for (;;) {
    const path = new Path(choices, least);
    let outcome = null;
    try {
      outcome = String(draw(path));
    } catch (thrown) {
      if (thrown !== path) throw thrown;
    }
    if (outcome === null) left = plus(left, path.chance);
    else law.set(outcome, law.has(outcome) ? plus(law.get(outcome), path.chance) : path.chance);
    const made = path.made;
    while (made.length && made.at(-1).k + 1 === made.at(-1).of) made.pop();
    if (!made.length) return { law, left };
    made.at(-1).k += 1;
    choices = made.map(({ k }) => k);
  }
}

const round = (fields) =>
  Round.fromText(
    JSON.stringify({ format: "privmean round", version: 1, persons: 100, seed: SEED, menu: ["0.5", "3"], ...fields }),
  );

const CASES = [
  [round({ mechanism: "one-bit", lower: [0], upper: [4] }), [null, 0, 1, 3.7, 4, NaN, 1e300]],
  [round({ mechanism: "hybrid", lower: [0], upper: [4], menu: ["0.5"] }), [null, 0, 1, 4]],
  [round({ mechanism: "hadamard", items: 4, rows: 4 }), [null, 0, 1, 2, 3, "x"]],
  [round({ mechanism: "hadamard", items: 4, rows: 4, row_choice: "chosen" }), [null, 0, 1, 2, 3]],
  [round({ mechanism: "sketch", items: 9, rows: 8, row_choice: "chosen" }), [null, 0, 1, 5, 8]],
  [round({ mechanism: "unary", items: 5 }), [null, 0, 2, 4]],
  [round({ mechanism: "histogram", items: 5 }), [null, 0, 2, 4]],
  [round({ mechanism: "subset", items: 2 }), [null, 0, 1]],
  [round({ mechanism: "subset", items: 5 }), [null, 0, 1, 4]],
  [round({ mechanism: "subset", items: 6, menu: ["0.001", "16"] }), [null, 0, 5]],
  [
    round({ mechanism: "closest", radius: 1, dimension: 3, candidates: 8, favoured: [3, 1] }),
    [null, [1, 0, 0], [-1, 0, 0], [0.1, 0.2, 9], [0, 0.5, 0.5]],
  ],
  [round({ mechanism: "ball-bit", radius: 1, dimension: 3 }), [null, [1, 0, 0], [-1, 0, 0], [0.1, 0.2, 9]]],
];

/** The largest ratio P/Q of the laws, compared with e^epsilon from above, in integers. */
function assertPrivate(laws, epsilon, name) {
  const outcomes = new Set(laws.flatMap((law) => [...law.keys()]));
  const power = powerOfE(epsilon) + (1n << (BITS - 500n)); // e^epsilon, rounded up a hair
  let tight = 0;
  for (const outcome of outcomes) {
    const chances = laws.map((law) => law.get(outcome));
    assert.ok(chances.every(Boolean), `${name}: ${outcome} is possible for some values alone`);
    const more = (p, q) => (p.n * q.d > q.n * p.d ? p : q);
    const p = chances.reduce(more);
    const q = chances.reduce((one, other) => (more(one, other) === one ? other : one));
    assert.ok((p.n * q.d) << BITS <= power * q.n * p.d, `${name}: ${outcome}`);
    tight = Math.max(tight, Number((p.n * q.d * 10n ** 12n) / (q.n * p.d)) / 1e12);
  }
  return tight;
}

for (const [made, values] of CASES) {
  const name = `${made.mechanism}, ${made.row_choice}, ${made.items ?? made.dimension ?? 1}`;
  test(`exact law: ${name}`, () => {
    made.menu.forEach((epsilon, level) => {
      for (const byte of [0, 77]) {
        const nonce = new Uint8Array(16).fill(byte);
        const randomizer = RANDOMIZERS[made.mechanism];
        const laws = values.map((value) => {
          const { law } = lawOf((entropy) => hex(randomizer(made, level, value, nonce, entropy)));
          const total = [...law.values()].reduce(plus, fraction(0n));
          assert.equal(`${total.n}/${total.d}`, "1/1");
          return law;
        });
        const tight = assertPrivate(laws, epsilon, name);
        const wanted = Math.exp(Number(epsilon.n) / Number(epsilon.d));
        const bits = ["subset", "unary"].includes(made.mechanism) || made.mechanism === "hadamard";
        if (bits && made.row_choice === "assigned") assert.ok(tight > 0.9 * wanted, `${name}: ${tight}`);
      }
    });
  });
}

test("exact law: piecewise, all 65,537 outcomes", () => {
  const made = round({ mechanism: "piecewise", lower: [-1], upper: [1], menu: ["16"] });
  const nonce = new Uint8Array(16);
  const laws = [null, 1].map(
    (value) => lawOf((entropy) => hex(RANDOMIZERS.piecewise(made, 0, value, nonce, entropy))).law,
  );
  assert.equal(laws[0].size, 2 ** 16 + 1);
  const tight = assertPrivate(laws, made.menu[0], "piecewise");
  assert.ok(tight > 0.99 * Math.exp(16));
});

test("a coin of exp(-n/d), to one part in 10^9", () => {
  for (const [n, d] of [[0n, 1n], [1n, 3n], [1n, 1n], [7n, 3n]]) {
    const { law, left } = lawOf((entropy) => exponentialCoin(entropy, n, d), fraction(1n, 10n ** 11n));
    const [yes, rest] = [law.get("true"), left].map((x) => (x ? Number(x.n) / Number(x.d) : 0));
    assert.ok(yes <= Math.exp(-Number(n) / Number(d)) + 1e-12);
    assert.ok(yes + rest >= Math.exp(-Number(n) / Number(d)) - 1e-12);
    assert.ok(rest < 1e-6);
  }
});

test("discrete Laplace: each chance lies between what was found and what is left", () => {
  const scale = fraction(2n, 3n);
  const { law, left } = lawOf((entropy) => discreteLaplace(entropy, scale), fraction(1n, 30_000n));
  const number = (x) => Number((x.n << 64n) / x.d) / 2 ** 64;
  const ratio = Math.exp(-1.5);
  for (const j of [-2, -1, 0, 1, 2]) {
    const wanted = ((1 - ratio) / (1 + ratio)) * ratio ** Math.abs(j);
    const found = number(law.get(String(j)));
    assert.ok(found <= wanted + 1e-12 && found + number(left) >= wanted - 1e-12, `${j}`);
  }
  assert.ok(number(left) < 0.35, `${number(left)}`);
});

test("a twin that flips a little too rarely is caught", () => {
  const epsilon = fraction(1n, 2n);
  const wrong = (own) => new Map([["1", own ? fraction(63n, 100n) : fraction(37n, 100n)], ["0", own ? fraction(37n, 100n) : fraction(63n, 100n)]]);
  assert.throws(() => assertPrivate([wrong(true), wrong(false)], epsilon, "twin"));
});
