import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { disagreements } from "./agreement.js";

const PATH = new URL("../../../tests/vectors/wire.json", import.meta.url);

test("every vector", () => {
  const { compared, found } = disagreements(JSON.parse(readFileSync(PATH, "utf8")));
  assert.deepEqual(found, []);
  assert.ok(compared > 600, `${compared} comparisons`);
});

test("a changed vector is found", () => {
  const vectors = JSON.parse(readFileSync(PATH, "utf8"));
  const last = vectors.reports.at(-1);
  last.report = `${last.report.slice(0, -1)}${last.report.endsWith("0") ? "1" : "0"}`;
  assert.equal(disagreements(vectors).found.length, 1);
});
