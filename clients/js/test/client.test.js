import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import {
  ArgumentError,
  BudgetExceeded,
  Client,
  FolderLedger,
  MemoryLedger,
  Round,
  StatedEntropy,
  SystemEntropy,
  Ticket,
  decode,
  randomize,
} from "../src/node.js";

const HERE = path.dirname(fileURLToPath(import.meta.url));

export const round = (fields = {}) =>
  Round.fromText(
    JSON.stringify({
      format: "privmean round",
      version: 1,
      persons: 100,
      seed: "5a".repeat(32),
      menu: ["0.5", "1"],
      mechanism: "one-bit",
      lower: [0],
      upper: [4],
      ...fields,
    }),
  );

function folder(t) {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), "privmean-js-"));
  t.after(() => fs.rmSync(made, { recursive: true }));
  return made;
}

test("a retry sends the same bytes and spends nothing", async (t) => {
  const place = path.join(folder(t), "ledger");
  for (const make of [() => new MemoryLedger({ limit: 2 }), () => new FolderLedger(place, { limit: 2 })]) {
    const ledger = make();
    const first = await new Client({ epsilon: 0.9, ledger }).report(round(), 0.3);
    assert.equal(decode(first).level, 0);
    const other = new Client({ epsilon: 1, ledger });
    for (const value of [0.3, 4, NaN, null]) assert.deepEqual(await other.report(round(), value), first);
    assert.equal(await ledger.spent(), 0.5);
  }
  const again = new Client({ epsilon: 1, ledger: new FolderLedger(place, { limit: 2 }) });
  assert.equal((await again.report(round(), 1)).length, 43);
  assert.equal(await again.ledger.spent(), 0.5);
});

test("no new report after the deadline, and the old one again", async (t) => {
  const ledger = new MemoryLedger({ limit: 9 });
  const client = new Client({ epsilon: 1, ledger });
  const late = { name: "ArgumentError", message: /^round is over: a report would be late; / };
  await assert.rejects(client.report(round({ closes: 5 }), 0.5), late);
  assert.equal(await ledger.spent(), 0);
  const closes = Math.ceil(Date.now() / 1000) + 60;
  const sent = await client.report(round({ closes }), 0.5);
  t.mock.method(Date, "now", () => 1000 * closes + 1);
  assert.deepEqual(await client.report(round({ closes }), 4), sent);
  await assert.rejects(client.report(round({ closes, title: "b" }), 0.5), late);
  assert.equal(await ledger.spent(), 1);
});

test("a ledger stops before it spends", async (t) => {
  const ledger = new FolderLedger(path.join(folder(t), "ledger"), { limit: 1.5 });
  const client = new Client({ epsilon: 1, ledger });
  const sent = await client.report(round(), 0);
  await assert.rejects(client.report(round({ title: "b" }), 0), BudgetExceeded);
  assert.equal(await ledger.spent(), 1);
  await client.report(round({ title: "c", menu: ["0.5"] }), 0);
  assert.equal(await ledger.spent(), 1.5);
  assert.deepEqual(await client.report(round(), 3), sent);
});

test("a ledger on disk is its owner's alone, and refuses holes and damage", async (t) => {
  const place = path.join(folder(t), "ledger");
  const client = new Client({ epsilon: 1, ledger: new FolderLedger(place, { limit: 9 }) });
  for (const title of ["a", "b", "c"]) await client.report(round({ title }), 1);
  assert.equal(fs.statSync(place).mode & 0o077, 0);
  const names = fs.readdirSync(place).sort();
  assert.deepEqual(names, ["00000001", "00000002", "00000003"]);
  assert.equal(fs.statSync(path.join(place, names[0])).mode & 0o077, 0);
  const second = path.join(place, names[1]);
  const text = fs.readFileSync(second, "utf8");
  fs.writeFileSync(second, text.replace(/"epsilon":"1\/1"/, '"epsilon":"1/9"'));
  assert.throws(() => new FolderLedger(place, { limit: 9 }), ArgumentError);
  fs.rmSync(second);
  assert.throws(() => new FolderLedger(place, { limit: 9 }), ArgumentError);
});

test("processes share a ledger: one report a round, and never above the limit", async (t) => {
  const place = path.join(folder(t), "ledger");
  const run = () =>
    new Promise((resolve, reject) => {
      const child = spawn(process.execPath, [path.join(HERE, "answer_many.js"), place]);
      let out = "";
      child.stdout.on("data", (data) => (out += data));
      child.on("error", reject);
      child.on("close", () => resolve(JSON.parse(out)));
    });
  const answers = await Promise.all([run(), run(), run()]);
  for (const other of answers) assert.deepEqual(other, answers[0]);
  const reports = Object.values(answers[0]).filter((report) => report !== "exceeded");
  assert.equal(reports.length, 6);
  assert.equal(await new FolderLedger(place, { limit: 3 }).spent(), 3);
});

test("killed at any moment, a ledger hands out one report a round", async (t) => {
  const place = path.join(folder(t), "ledger");
  const handed = {};
  for (let k = 0; k < 5; k++) {
    const child = spawn(process.execPath, [path.join(HERE, "answer_many.js"), place, "say"]);
    let out = "";
    child.stdout.on("data", (data) => {
      out += data;
      if (out.split("\n").length > 2 * k) child.kill("SIGKILL"); // later each time
    });
    await new Promise((resolve) => child.on("close", resolve));
    for (const line of out.split("\n").slice(0, -1)) {
      const [title, report] = line.split(" ");
      if (report === "exceeded") continue;
      assert.equal(handed[title] ?? report, report);
      handed[title] = report;
    }
  }
  assert.equal(Object.keys(handed).length, 6);
  const held = fs.readdirSync(place).filter((name) => /^[0-9]+$/.test(name));
  assert.equal(held.length, 6);
  for (const name of held) {
    const { report } = JSON.parse(fs.readFileSync(path.join(place, name), "utf8"));
    assert.ok(Object.values(handed).includes(report));
  }
  assert.equal(await new FolderLedger(place, { limit: 3 }).spent(), 3);
});

test("no value throws, and every report of a round has one length", () => {
  const trap = { [Symbol.iterator]: () => { throw new Error("no"); } };
  const endless = { *[Symbol.iterator]() { for (;;) yield 1; } };
  const odd = [null, undefined, NaN, Infinity, -0, "", "7", "x", 10n ** 400n, true, {}, [], [1, 2], trap, endless, Symbol("s"), () => 1];
  const rounds = [
    round(),
    round({ mechanism: "piecewise" }),
    round({ mechanism: "hybrid", lower: [0, 1], upper: [1, 2] }),
    round({ mechanism: "subset", items: 9, lower: [], upper: [] }),
    round({ mechanism: "subset", bins: 5 }),
    round({ mechanism: "hadamard", items: 9, rows: 16, lower: [], upper: [] }),
    round({ mechanism: "ball-bit", radius: 1, dimension: 3, lower: [], upper: [] }),
    round({ mechanism: "closest", radius: 1, dimension: 4, candidates: 8, favoured: [2, 1], lower: [], upper: [] }),
  ];
  for (const made of rounds) {
    const lengths = new Set(odd.map((value) => randomize(made, value, { epsilon: 1 }).length));
    assert.equal(lengths.size, 1, made.mechanism);
  }
});

test("arguments are refused before anything is spent", async () => {
  const ledger = new MemoryLedger({ limit: 2 });
  const client = new Client({ epsilon: 1, ledger });
  const part = { seed: "11".repeat(32), shares: [1, 1], index: 0 };
  const issued = round({ issued: true });
  const ticket = (id, level) => Ticket.fromText(`${id}:${"ab".repeat(16)}:${level}:${"cd".repeat(32)}`);
  const curve = round({ points: [0, 1, 2] });
  for (const refused of [
    client.report(round({ part }), 0),
    client.report(issued, 0),
    client.report(issued, 0, { ticket: ticket(round().id, 0) }),
    client.report(issued, 0, { ticket: ticket(issued.id, 2) }),
    client.report(round(), 0, { ticket: ticket(issued.id, 0) }),
    client.report(round({ menu: ["2"] }), 0),
    client.report(curve, 0),
    client.report(curve, 0, { point: 3 }),
    client.report(round(), 0, { point: 0 }),
  ]) {
    await assert.rejects(refused, ArgumentError);
  }
  assert.equal(await ledger.spent(), 0);
  const named = await client.report(curve, 0, { point: 2 });
  assert.deepEqual([...decode(named).payload.subarray(0, 4)], [2, 0, 0, 0]);
  const sent = await client.report(issued, 0, { ticket: ticket(issued.id, 1) });
  assert.equal(sent.length, 75);
  for (const bad of [0, -1, "x", 17, NaN, null, "1e999"]) {
    assert.throws(() => new Client({ epsilon: bad, ledger }), ArgumentError);
    assert.throws(() => new MemoryLedger({ limit: bad === 17 ? 0 : bad === "1e999" ? "" : bad }), ArgumentError);
  }
  assert.throws(() => randomize(round(), 0, { epsilon: 1, nonce: new Uint8Array(3) }), ArgumentError);
});

test("a part asks each identity once", async () => {
  const parts = [0, 1].map((index) => round({ part: { seed: "11".repeat(32), shares: [20, 80], index } }));
  let first = 0;
  for (let k = 0; k < 500; k++) {
    const client = new Client({ epsilon: 1, ledger: new MemoryLedger({ limit: 1 }), identity: `person ${k}` });
    const answers = [await client.report(parts[0], 1), await client.report(parts[1], 1)];
    assert.equal(answers.filter((answer) => answer === null).length, 1);
    first += answers[0] !== null;
  }
  assert.ok(first > 55 && first < 150); // 100 expected, 5 standard deviations
});

test("two messages spend half each", () => {
  const made = round({ messages: 2 });
  assert.equal(made.level(1), 0);
  assert.equal(made.level(2), 1);
  assert.throws(() => made.level(0.9), ArgumentError);
});

test("a ladder uses one's own epsilon to a step", () => {
  const ladder = round({ menu: ["0.1", "4"], step: "0.001" });
  assert.equal(ladder.menu.length, 3901);
  assert.deepEqual(ladder.menu[ladder.level(0.7654)], { n: 153n, d: 200n });
  assert.ok(ladder.text.includes('"menu":["0.1","4"]') && ladder.text.includes('"step":"0.001"'));
  assert.throws(() => round({ menu: ["0.1", "4"], step: "0.7" }), ArgumentError);
});

test("what is not the platform's generator says so", () => {
  assert.equal(new SystemEntropy().secure, true);
  assert.equal(new StatedEntropy(new Uint8Array(8)).secure, false);
  const bytes = new SystemEntropy().bytes(5000);
  const counts = new Array(256).fill(0);
  bytes.forEach((byte) => (counts[byte] += 1));
  const chi = counts.reduce((sum, count) => sum + (count - 5000 / 256) ** 2 / (5000 / 256), 0);
  assert.ok(chi < 400); // 255 degrees of freedom: one false alarm in 10^8
});

test("types name what is exported, and nothing else", async () => {
  for (const [module, files] of [["index", ["index"]], ["node", ["index", "node"]]]) {
    const read = (name) => fs.readFileSync(path.join(HERE, "..", "src", `${name}.d.ts`), "utf8");
    const declared = files.flatMap((name) =>
      [...read(name).matchAll(/^export (?:class|function|const) (\w+)/gm)].map((match) => match[1]),
    );
    assert.deepEqual(Object.keys(await import(`../src/${module}.js`)).sort(), declared.sort());
  }
});
