import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import test from "node:test";
import {
  ArgumentError,
  FolderStore,
  MemoryStore,
  Outbox,
  PrivmeanError,
  Round,
  ServerError,
  fetchRound,
  fetchRounds,
  send,
  sendMany,
} from "../src/node.js";
import { batches, pause } from "../src/send.js";

const ROUND = Round.fromText(
  JSON.stringify({
    format: "privmean round", version: 1, persons: 9, seed: "5a".repeat(32), menu: ["1"],
    mechanism: "one-bit", lower: [0], upper: [1],
  }),
);

/** A server that answers as told, one function a request, and keeps the bodies. */
async function serving(t, ...answers) {
  const seen = [];
  const server = http.createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      seen.push({ url: request.url, body: Buffer.concat(parts) });
      const answer = answers[Math.min(seen.length, answers.length) - 1];
      if (answer === "cut") return request.socket.destroy();
      const { status = 200, headers = {}, body = { accepted: 1, duplicate: 0, rejected: {} } } =
        typeof answer === "function" ? answer(seen.at(-1)) : answer;
      response.writeHead(status, headers);
      response.end(typeof body === "string" ? body : JSON.stringify(body));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${server.address().port}`, seen };
}

function waiting() {
  const pauses = [];
  return { pauses, wait: async (seconds) => void pauses.push(seconds) };
}

const REPORT = new Uint8Array(43).fill(7);

test("sends again what found no answer, the same bytes, with growing pauses", async (t) => {
  const { url, seen } = await serving(t, "cut", { status: 503 }, { status: 429, headers: { "Retry-After": "9" } }, { body: "?" }, {});
  const { pauses, wait } = waiting();
  assert.equal((await send(`${url}/`, ROUND.id, REPORT, { wait })).accepted, 1);
  assert.equal(seen.length, 5);
  for (const { url: asked, body } of seen) {
    assert.equal(asked, `/rounds/${ROUND.id}/reports`);
    assert.deepEqual(new Uint8Array(body), REPORT);
  }
  assert.equal(pauses[2], 9);
  assert.ok(pauses[0] >= 0.125 && pauses[0] <= 0.25 && pauses[3] >= 1 && pauses[3] <= 2);
});

test("what is no receipt has taken nothing", async (t) => {
  const whole = { accepted: 1, duplicate: 0, rejected: {} };
  const odd = [{}, [], 1, "null", { accepted: 1 }, { ...whole, accepted: "1" }, { ...whole, rejected: 0 },
    { ...whole, rejected: { late: "many" } }, { ...whole, duplicate: null }];
  for (const body of odd) {
    const { url } = await serving(t, { body });
    const { wait } = waiting();
    await assert.rejects(send(url, ROUND.id, REPORT, { attempts: 2, wait }), (error) => error instanceof ServerError && error.kept);
  }
});

test("a refusal for good is said at once", async (t) => {
  const { url, seen } = await serving(t, { status: 415 });
  await assert.rejects(send(url, ROUND.id, REPORT), (error) => error instanceof ServerError && error.status === 415 && !error.kept);
  assert.equal(seen.length, 1);
  await assert.rejects(send("ftp:x", ROUND.id, REPORT), ArgumentError);
  await assert.rejects(send(url, ROUND.id, new Uint8Array((1 << 22) + 1)), ArgumentError);
});

test("pauses grow to eight seconds, and what the server asks counts up to a minute", () => {
  assert.equal(pause(0, null, () => 1), 0.25);
  assert.equal(pause(20, null, () => 1), 8);
  assert.equal(pause(20, null, () => 0), 4);
  assert.equal(pause(0, "7", () => 1), 7);
  assert.equal(pause(0, "100000", () => 1), 60);
  assert.equal(pause(0, "Wed, 21 Oct 2015", () => 1), 0.25);
});

test("many reports go in bodies that fit, also where the server takes less", async (t) => {
  const reports = Array.from({ length: 100 }, (_, k) => new Uint8Array(43).fill(k));
  assert.deepEqual(batches(reports, 43 * 30).map((batch) => batch.length), [30, 30, 30, 10]);
  const { url, seen } = await serving(t, ({ body }) =>
    body.length > 500
      ? { status: 413 }
      : { body: { accepted: body.length / 43 - 1, duplicate: 1, rejected: { late: 1 } } },
  );
  const sum = await sendMany(url, ROUND.id, reports);
  const taken = seen.filter(({ body }) => body.length <= 500);
  assert.deepEqual(Buffer.concat(taken.map(({ body }) => body)), Buffer.concat(reports));
  assert.deepEqual(sum, { accepted: 100 - taken.length, duplicate: taken.length, rejected: { late: taken.length } });
});

for (const kind of ["memory", "folder"]) {
  test(`an outbox keeps what found no answer: ${kind}`, async (t) => {
    const place = fs.mkdtempSync(path.join(os.tmpdir(), "privmean-js-"));
    t.after(() => fs.rmSync(place, { recursive: true }));
    const made = new MemoryStore();
    const open = () => new Outbox(kind === "memory" ? made : new FolderStore(place));
    const { url } = await serving(t, "cut", "cut", { body: { accepted: 2, duplicate: 0, rejected: {} } });
    const gone = await serving(t, { status: 404 });
    const { wait } = waiting();
    await open().put(url, ROUND.id, REPORT);
    await open().put(url, ROUND.id, REPORT);
    await open().put(url, ROUND.id, new Uint8Array(43));
    await open().put(gone.url, ROUND.id, REPORT);
    assert.equal(await open().size(), 3);
    const first = await open().flush({ attempts: 2, wait });
    assert.deepEqual([first.accepted, first.waiting, first.problems.length], [0, 2, 2]);
    assert.equal(await open().size(), 2); // the round that is no more is given up
    const second = await open().flush({ wait });
    assert.deepEqual([second.accepted, second.waiting, second.problems], [2, 0, []]);
    assert.equal(await open().size(), 0);
  });
}

test("a round is what it hashes to", async (t) => {
  const { url } = await serving(t, ({ url: asked }) =>
    asked === "/rounds" ? { body: [{ round: ROUND.id }] } : { body: asked.endsWith(ROUND.id) ? ROUND.text : ROUND.text.replace("9", "8") },
  );
  assert.equal((await fetchRounds(url))[0].round, ROUND.id);
  assert.equal((await fetchRound(url, ROUND.id.toUpperCase())).text, ROUND.text);
  await assert.rejects(fetchRound(url, "0".repeat(16)), PrivmeanError);
  await assert.rejects(fetchRound(url, "../estimate"), ArgumentError);
});
