/**
 * Reads one JSON object from standard input, {round, value, others, epsilon, count}, and writes
 * `count` binary reports with the platform's entropy: for tests of the law by a server.
 */
import { readFileSync } from "node:fs";
import { Round, randomize } from "../src/node.js";

const { round: text, values, epsilon, count } = JSON.parse(readFileSync(0, "utf8"));
const round = Round.fromText(text);
for (let k = 0; k < count; k++) {
  const report = randomize(round, values[k % values.length], { epsilon: epsilon[k % epsilon.length] });
  process.stdout.write(report);
}
