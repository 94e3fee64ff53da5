/** The public description of one round of reports, read from its text and checked. */
import { ascii, hex, littleEndian, unhex } from "./bytes.js";
import { floatText, listText, objectText, stringText } from "./canonical.js";
import { ArgumentError } from "./errors.js";
import { atMost, exactEpsilon, fraction, fractionText, asNumber } from "./exact.js";
import { blake2b } from "./hashes.js";
import { parsed } from "./json.js";
import { BALLS, CODES, RETIRED, SCALARS } from "./mechanisms.js";

export const VERSION = 1;
const LARGEST_BOUND = 1e150;
const LARGEST = 1e120;
const SMALLEST = 1e-120;
const LARGEST_TALLY = 2 ** 28;

const DEFAULTS = {
  title: "",
  beta: 0.05,
  lower: [],
  upper: [],
  radius: null,
  dimension: null,
  items: null,
  other: null,
  bins: null,
  rows: null,
  row_choice: "assigned",
  sigma: [],
  step: null,
  candidates: null,
  favoured: [],
  issued: false,
  closes: null,
  part: null,
  messages: 1,
  points: [],
};

const bad = (name, problem, remedy = "ask for the round again") =>
  new ArgumentError(name, problem, remedy);

function number(name, value) {
  if (typeof value !== "number" || !Number.isFinite(value)) throw bad(name, "is no finite number");
  if (Math.abs(value) > LARGEST) throw bad(name, "is out of reach");
  return value + 0; // minus zero is zero
}

function positive(name, value) {
  if (!(number(name, value) > 0) || value < SMALLEST) throw bad(name, "is not positive");
  return value;
}

function whole(name, value, least = 0, most = Number.MAX_SAFE_INTEGER) {
  if (typeof value !== "number" || !Number.isInteger(value) || value < least || value > most) {
    throw bad(name, `is no whole number from ${least} to ${most}`);
  }
  return value === 0 ? 0 : value; // no minus zero
}

function list(name, value) {
  if (!Array.isArray(value)) throw bad(name, "is no list");
  return value;
}

function seedOf(value) {
  if (typeof value !== "string" || !/^[0-9a-f]{64}$/i.test(value)) throw bad("seed", "is not 32 bytes");
  return unhex(value.toLowerCase());
}

function partOf(value) {
  if (typeof value !== "object" || value === null) throw bad("part", "is no part");
  const shares = list("shares", value.shares).map((share) => whole("shares", share, 1));
  if (!shares.length) throw bad("shares", "are none");
  return Object.freeze({
    seed: seedOf(value.seed),
    shares,
    index: whole("index", value.index, 0, shares.length - 1),
  });
}

/**
 * One round. Fields have the names and the meaning that docs/wire-format.md gives; `menu` holds exact
 * fractions {n, d}. Immutable; anything malformed or unknown is refused with ArgumentError.
 */
export class Round {
  constructor(values) {
    const { mechanism } = values;
    if (typeof mechanism === "string" && Object.hasOwn(RETIRED, mechanism)) {
      throw bad("mechanism", `${mechanism} is retired`, `ask for a round with ${RETIRED[mechanism].instead}`);
    }
    const known = { ...DEFAULTS, mechanism: undefined, menu: undefined, persons: undefined, seed: undefined };
    for (const name of Object.keys(values)) {
      if (!Object.hasOwn(known, name)) throw bad("round", `has the unknown field ${name}`, "update privmean");
    }
    Object.assign(this, known, values);
    if (typeof this.mechanism !== "string" || !Object.hasOwn(CODES, this.mechanism)) {
      throw bad("mechanism", "is unknown", "update privmean");
    }
    this.code = CODES[this.mechanism];
    this.#common();
    this.#points();
    if (SCALARS.includes(this.mechanism)) this.#numbers();
    else if (BALLS.includes(this.mechanism)) this.#ball();
    else this.#items();
    this.coordinates = Math.max(1, this.lower.length);
    const cells = this.menu.length * (this.points.length || this.coordinates) * (this.mechanism === "hybrid" ? 2 : 1);
    if (cells * this.#width() > LARGEST_TALLY) throw bad("round", "is too large for a server");
    this.text = this.#text();
    this.digest = blake2b(ascii(this.text), { size: 32, person: ascii("privmean-round") });
    this.identifier = this.digest.slice(0, 8);
    Object.freeze(this);
  }

  /** The round in its published text (JSON). */
  static fromText(text) {
    let values;
    try {
      values = parsed(text);
    } catch {
      values = null;
    }
    if (typeof values !== "object" || values === null || Array.isArray(values)) {
      throw bad("round", "is no JSON object");
    }
    const { format, version, ...fields } = values;
    if (format !== "privmean round" || version !== VERSION) {
      throw bad("round", "is no round of this version", "update privmean");
    }
    return new Round(fields);
  }

  get id() {
    return hex(this.identifier);
  }

  #common() {
    this.menu = Object.freeze(this.#menu());
    this.persons = whole("persons", this.persons, 1, 2 ** 30);
    if (!(number("beta", this.beta) >= 1e-12 && this.beta <= 0.5)) {
      throw bad("beta", "is outside 1e-12 to 0.5");
    }
    this.seed = seedOf(this.seed);
    if (typeof this.title !== "string") throw bad("title", "is no text");
    if (typeof this.issued !== "boolean") throw bad("issued", "is neither true nor false");
    if (this.closes !== null) this.closes = whole("closes", this.closes);
    this.messages = whole("messages", this.messages, 1, 64);
    if (!["assigned", "chosen"].includes(this.row_choice)) throw bad("row_choice", "is unknown");
    if (this.part !== null) this.part = partOf(this.part);
    if (this.issued && this.row_choice === "chosen") throw bad("row_choice", "is the ticket's affair");
    for (const name of ["lower", "upper", "sigma", "points"]) {
      this[name] = Object.freeze(list(name, this[name]).map((x) => number(name, x)));
    }
  }

  /** The levels, rising: all of them, or the ladder between the two that are named. */
  #menu() {
    const menu = list("menu", this.menu).map((level) => exactEpsilon("menu", level));
    if (!menu.length || menu.length > 1024) throw bad("menu", "has no level or too many");
    for (let k = 1; k < menu.length; k++) {
      if (atMost(menu[k], menu[k - 1])) throw bad("menu", "does not rise");
    }
    if (this.step === null) return menu;
    const step = (this.step = exactEpsilon("step", this.step));
    if (!SCALARS.includes(this.mechanism)) throw bad("step", "is not for this mechanism");
    if (menu.length !== 2) throw bad("menu", "does not name the two ends of its ladder");
    const [low, high] = menu;
    const way = fraction((high.n * low.d - low.n * high.d) * step.d, high.d * low.d * step.n);
    if (way.d !== 1n || way.n >= 2n ** 14n) throw bad("step", "does not lead from end to end");
    return Array.from({ length: Number(way.n) + 1 }, (_, k) =>
      fraction(low.n * step.d + BigInt(k) * step.n * low.d, low.d * step.d),
    );
  }

  /** Of rounds of numbers: the spread, which servers read, and a curve's design points. */
  #numbers() {
    this.#bounds();
    this.sigma.forEach((x) => positive("sigma", x));
    if (this.sigma.length && this.sigma.length !== this.lower.length) {
      throw bad("sigma", "does not match the bounds");
    }
  }

  #points() {
    if (!this.points.length) return;
    if (!SCALARS.includes(this.mechanism) || this.lower.length !== 1) {
      throw bad("points", "are for a mean with one pair of bounds");
    }
    if (this.points.length > 2 ** 16) throw bad("points", "are too many");
    if (this.points.some((x, k) => k && this.points[k - 1] >= x)) throw bad("points", "do not rise");
  }

  #bounds() {
    const [lower, upper] = [this.lower, this.upper];
    if (!lower.length || lower.length !== upper.length) throw bad("lower", "does not match upper");
    lower.forEach((low, k) => {
      const high = upper[k];
      if (!(low < high)) throw bad("bounds", "are not in order");
      if (high - low < 1 / LARGEST_BOUND) throw bad("bounds", "are out of reach");
    });
  }

  #ball() {
    if (positive("radius", this.radius) < 1 / LARGEST_BOUND) throw bad("radius", "is out of reach");
    this.dimension = whole("dimension", this.dimension, 1, 2 ** 16);
    if (this.mechanism === "closest") this.#candidates();
  }

  #candidates() {
    if (this.dimension < 2) throw bad("dimension", "needs 2 or more");
    const count = (this.candidates = whole("candidates", this.candidates, 2, 1024));
    if (Math.log2(count) % 1) throw bad("candidates", "are no power of two");
    this.favoured = Object.freeze(
      list("favoured", this.favoured).map((x) => whole("favoured", x, 1, count / 2)),
    );
    if (this.favoured.length !== this.menu.length) throw bad("favoured", "must hold one a level");
  }

  #items() {
    if (this.bins !== null) {
      this.#bounds();
      this.items = this.bins = whole("bins", this.bins, 2);
    }
    const sketched = this.mechanism === "sketch";
    this.items = whole("items", this.items, 2, sketched ? 2 ** 53 - 1 : 2 ** 24);
    if (this.other !== null) this.other = whole("other", this.other, 0, this.items - 1);
    if (!sketched && this.mechanism !== "hadamard") return;
    const rows = (this.rows = whole("rows", this.rows, 1, 2 ** 31));
    if (Math.log2(rows) % 1) throw bad("rows", "are no power of two");
    if (!sketched && rows < this.items) throw bad("rows", "are fewer than the items");
  }

  #width() {
    if (SCALARS.includes(this.mechanism)) return 1;
    if (BALLS.includes(this.mechanism)) return this.dimension;
    return ["sketch", "hadamard"].includes(this.mechanism) ? this.rows : this.items;
  }

  /** Every field that differs from its default. */
  #text() {
    const floats = (items) => listText(items.map(floatText));
    const seed = (bytes) => stringText(hex(bytes));
    const write = {
      title: stringText,
      beta: floatText,
      radius: floatText,
      lower: floats,
      upper: floats,
      sigma: floats,
      points: floats,
      favoured: listText,
      step: (step) => stringText(fractionText(step)),
      row_choice: stringText,
      part: (part) =>
        objectText({ seed: seed(part.seed), shares: listText(part.shares), index: part.index }),
    };
    const ends = this.step === null ? this.menu : [this.menu[0], this.menu.at(-1)];
    const texts = {
      format: stringText("privmean round"),
      version: VERSION,
      mechanism: stringText(this.mechanism),
      menu: listText(ends.map((level) => stringText(fractionText(level)))),
      persons: this.persons,
      seed: seed(this.seed),
    };
    for (const [name, usual] of Object.entries(DEFAULTS)) {
      const value = this[name];
      const same = Array.isArray(usual) ? value.length === 0 : value === usual;
      if (!same && !(name === "items" && this.bins !== null)) texts[name] = (write[name] ?? String)(value);
    }
    return objectText(texts);
  }

  // -- what a nonce assigns

  /** The row. */
  row(nonce) {
    const mixed = littleEndian(nonce.subarray(0, 8)) ^ littleEndian(this.seed.subarray(0, 8));
    return mixed & BigInt(this.rows - 1);
  }

  /** 64 public bits: the coordinate and the branch of the hybrid mechanism. */
  selector(nonce) {
    return littleEndian(nonce.subarray(8, 16)) ^ littleEndian(this.seed.subarray(8, 16));
  }

  coordinate(nonce) {
    return Number((this.selector(nonce) & 0xffffffffn) % BigInt(this.coordinates));
  }

  /** The largest level that a client allowing `epsilon` for all its messages can answer at. */
  level(epsilon) {
    const allowed = exactEpsilon("epsilon", epsilon);
    const each = fraction(allowed.n, allowed.d * BigInt(this.messages));
    const fitting = this.menu.filter((level) => atMost(level, each)).length;
    if (!fitting) {
      const least = `${asNumber(this.menu[0])}, in each of ${this.messages} message(s)`;
      throw new ArgumentError(
        "epsilon",
        `is below the smallest level of this round, ${least}`,
        "do not answer this round",
      );
    }
    return fitting - 1;
  }
}
