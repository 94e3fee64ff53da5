// node report.mjs TASK SERVER0 SERVER1 < VALUES: one line a person (values apart by blanks), for trials
// with values at hand. A real client has one person, and runs `Task.report` where the value is.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Task } from "./shares.mjs";

const [place, ...servers] = process.argv.slice(2);
const task = new Task(readFileSync(place, "utf8"));
let sent = 0;
for await (const line of createInterface({ input: process.stdin })) {
  if (!line.trim()) continue;
  const messages = await task.report(line.trim().split(/\s+/).map(Number));
  for (const [k, message] of messages.entries()) {
    const answer = await fetch(`${servers[k]}/reports`, {
      method: "POST",
      body: JSON.stringify(message),
    });
    if (!answer.ok) throw new Error(`server ${k} answered ${answer.status}`);
  }
  sent++;
}
console.log(JSON.stringify({ sent }));
