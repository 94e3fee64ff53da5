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

const BITS = 704n;
const SEED = "5a".repeat(32);
const times = (a, b) => ({ n: a.n * b.n, d: a.d * b.d });
const ONE = fraction(1n);

/** Coins that follow a path of choices, and remember where it forks. */
class Path extends Entropy {
  constructor(choices) {
    super();
    Object.assign(this, { choices, made: [], chance: ONE });
  }

  #choose(of, chanceOf) {
    const k = this.choices[this.made.length] ?? 0;
    this.made.push({ k, of });
    this.chance = times(this.chance, chanceOf(k));
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

/** The law of `draw(entropy)`: a map from outcome to exact chance. */
function lawOf(draw) {
  const law = new Map();
  let choices = [];
  for (;;) {
    const path = new Path(choices);
    const outcome = draw(path);
    law.set(outcome, law.has(outcome) ? plus(law.get(outcome), path.chance) : path.chance);
    const made = path.made;
    while (made.length && made.at(-1).k + 1 === made.at(-1).of) made.pop();
    if (!made.length) return law;
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
          const law = lawOf((entropy) => hex(randomizer(made, level, value, nonce, entropy)));
          const total = [...law.values()].reduce(plus, fraction(0n));
          assert.equal(`${total.n}/${total.d}`, "1/1");
          return law;
        });
        const tight = assertPrivate(laws, epsilon, name);
        const wanted = Math.exp(Number(epsilon.n) / Number(epsilon.d));
        const bits = ["subset", "hadamard"].includes(made.mechanism);
        if (bits && made.row_choice === "assigned") assert.ok(tight > 0.9 * wanted, `${name}: ${tight}`);
      }
    });
  });
}

test("exact law: piecewise, all 65,537 outcomes", () => {
  const made = round({ mechanism: "piecewise", lower: [-1], upper: [1], menu: ["16"] });
  const nonce = new Uint8Array(16);
  const laws = [null, 1].map(
    (value) => lawOf((entropy) => hex(RANDOMIZERS.piecewise(made, 0, value, nonce, entropy))),
  );
  assert.equal(laws[0].size, 2 ** 16 + 1);
  const tight = assertPrivate(laws, made.menu[0], "piecewise");
  assert.ok(tight > 0.99 * Math.exp(16));
});

test("a twin that flips a little too rarely is caught", () => {
  const epsilon = fraction(1n, 2n);
  const wrong = (own) => new Map([["1", own ? fraction(63n, 100n) : fraction(37n, 100n)], ["0", own ? fraction(37n, 100n) : fraction(63n, 100n)]]);
  assert.throws(() => assertPrivate([wrong(true), wrong(false)], epsilon, "twin"));
});
