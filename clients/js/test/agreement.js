/** Whether this implementation agrees with tests/vectors/wire.json; runs in Node and in browsers. */
import { publicDirection, unit } from "../src/ball.js";
import { ascii, concat, crc32, hex, toLittleEndian, unhex } from "../src/bytes.js";
import { randomize, RANDOMIZERS } from "../src/client.js";
import { StatedEntropy } from "../src/entropy.js";
import { exactEpsilon, flipThreshold, oddsThreshold } from "../src/exact.js";
import { blake2b, hmac, sha256, shake128 } from "../src/hashes.js";
import { subsetSize } from "../src/items.js";
import { chosen } from "../src/part.js";
import { decode, Ticket, toJson } from "../src/report.js";
import { Round } from "../src/round.js";
import { bitThreshold, hybridShare, windowOf } from "../src/scalar.js";
import { utf8 } from "../src/part.js";

const stated = (name) => new StatedEntropy(shake128(utf8(`privmean-vectors:${name}`), 1 << 14));

/** A value as it stands in the vectors. */
export function read(value) {
  if (Array.isArray(value)) return value.map(read);
  if (typeof value !== "object" || value === null) return value;
  if ("integer" in value) return BigInt(value.integer);
  return { nan: NaN, inf: Infinity, "-inf": -Infinity }[value.double];
}

/** Every disagreement, and how many comparisons were made. */
export function disagreements(vectors) {
  const found = [];
  let compared = 0;
  const same = (what, mine, theirs) => {
    compared += 1;
    if (String(mine) !== String(theirs)) found.push(`${what}: ${mine} is not ${theirs}`);
  };
  const refused = (what, work) => {
    compared += 1;
    try {
      work();
    } catch (error) {
      return error;
    }
    found.push(`${what}: taken`);
    return {};
  };

  for (const item of vectors.hashes) {
    const data = unhex(item.data);
    const [key] = [shake128(ascii("privmean-vectors:key"), 32)];
    const keyed = { size: 20, key, person: ascii("privmean-vector") };
    same("BLAKE2b", hex(blake2b(data)), item.blake2b);
    same("BLAKE2b with a key", hex(blake2b(data, keyed)), item.blake2b_keyed);
    same("SHAKE-128", hex(shake128(data, 200)), item.shake128);
    same("SHA-256", hex(sha256(data)), item.sha256);
    same("HMAC", hex(hmac(key, data)), item.hmac_sha256);
    same("CRC-32", crc32(data), item.crc32);
  }

  for (const item of vectors.thresholds) {
    const epsilon = exactEpsilon("epsilon", item.epsilon);
    const name = `epsilon ${item.epsilon}`;
    same(`${name}: flip`, flipThreshold(epsilon), item.flip);
    for (const { favoured, other, threshold } of item.odds) {
      same(`${name}: odds`, oddsThreshold(epsilon, BigInt(favoured), BigInt(other)), threshold);
    }
    same(`${name}: window`, windowOf(epsilon).width, item.window.width);
    same(`${name}: window's chance`, windowOf(epsilon).threshold, item.window.threshold);
    same(`${name}: hybrid`, hybridShare(epsilon), item.hybrid_share);
    for (const { items, size, threshold } of item.subset) {
      const mine = subsetSize(epsilon, items);
      same(`${name}: subset`, mine, size);
      same(`${name}: own item`, oddsThreshold(epsilon, mine, BigInt(items) - mine), threshold);
    }
    for (const { x, threshold } of item.one_bit) {
      same(`${name}: bit of ${x}`, bitThreshold(epsilon, x), threshold);
    }
  }

  for (const item of vectors.integers) {
    const entropy = stated(item.coins);
    same(item.coins, item.drawn.map(() => entropy.below(BigInt(item.bound))), item.drawn);
  }

  const rounds = {};
  for (const item of vectors.rounds) {
    const round = Round.fromText(item.text);
    rounds[item.name] = round;
    same(`${item.name}: text`, round.text, item.text);
    same(`${item.name}: digest`, hex(round.digest), item.digest);
    const fields = Object.entries(JSON.parse(item.text)).reverse();
    const turned = JSON.stringify(Object.fromEntries(fields), null, 2); // read, not only hashed
    same(`${item.name}: digest again`, hex(Round.fromText(turned).digest), item.digest);
  }
  for (const { why, text } of vectors.rounds_refused) {
    const error = refused(why, () => Round.fromText(text));
    same(`${why}: kind of error`, error.name, "ArgumentError");
  }

  for (const { seed, shares, identity, index } of vectors.parts) {
    const mine = shares.map((_, k) => chosen({ seed: unhex(seed), shares, index: k }, identity));
    same(`part of ${identity}`, mine.indexOf(true), index);
    same(`parts of ${identity}`, mine.filter(Boolean).length, 1);
  }

  for (const item of vectors.assigned) {
    const round = rounds[item.round];
    const nonce = unhex(item.nonce);
    if ("row" in item) same(`${item.round}: row`, round.row(nonce), item.row);
    if ("coordinate" in item) same(`${item.round}: coordinate`, round.coordinate(nonce), item.coordinate);
    if ("branch" in item) same(`${item.round}: branch`, round.selector(nonce) >> 32n, item.branch);
    const off = (mine, theirs) => mine.some((x, k) => Math.abs(x - theirs[k]) > 1e-13);
    if ("direction" in item) {
      same(`${item.round}: direction is off`, off(publicDirection(round, nonce), item.direction), false);
    }
    for (const [number, theirs] of Object.entries(item.directions ?? {})) {
      const name = [nonce, "privmean-closest", toLittleEndian(number, 2)];
      same(`${item.round}: direction is off`, off(unit(publicDirection(round, ...name)), theirs), false);
    }
  }

  for (const item of vectors.reports) {
    const round = rounds[item.round];
    const ticket = item.ticket ? Ticket.fromText(item.ticket) : null;
    const { epsilon, point = null } = item;
    const options = { epsilon, ticket, point, entropy: stated(item.coins) };
    const report = randomize(round, read(item.value), options);
    same(item.coins, hex(report), item.report);
    same(`${item.coins}: round`, decode(report).round, round.id);
    if (item.json) same(`${item.coins}: JSON`, toJson(report), item.json);
  }

  const formal = ["truncated", "not a report", "unknown version", "unknown mechanism", "retired mechanism", "reserved field used", "damaged"];
  for (const { why, report, reason } of vectors.judged) {
    if (formal.includes(reason)) same(why, refused(why, () => decode(unhex(report))).reason, reason);
    if (reason === "") same(`${why}: read`, hex(decode(unhex(report)).payload).length > 0, true);
  }
  same("mechanisms", Object.keys(RANDOMIZERS).length, 8);
  return { compared, found };
}
