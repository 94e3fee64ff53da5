/** Answers ten rounds with the ledger that is named: a process of client.test.js. */
import { writeSync } from "node:fs";
import { BudgetExceeded, Client, FolderLedger, Round } from "../src/node.js";
import { hex } from "../src/bytes.js";

const fields = { format: "privmean round", version: 1, persons: 9, seed: "5a".repeat(32), menu: ["0.5"] };
const answers = {};
const client = new Client({ epsilon: 1, ledger: new FolderLedger(process.argv[2], { limit: 3 }) });
for (let k = 0; k < 10; k++) {
  const round = Round.fromText(
    JSON.stringify({ ...fields, mechanism: "one-bit", lower: [0], upper: [1], title: String(k) }),
  );
  try {
    answers[k] = hex(await client.report(round, Math.random()));
  } catch (error) {
    if (!(error instanceof BudgetExceeded)) throw error;
    answers[k] = "exceeded";
  }
  if (process.argv[3]) writeSync(1, `${k} ${answers[k]}\n`);
}
if (!process.argv[3]) console.log(JSON.stringify(answers));
