/** Reads vectors from standard input and prints the disagreements: for random ones. */
import { readFileSync } from "node:fs";
import { disagreements } from "./agreement.js";

console.log(JSON.stringify(disagreements(JSON.parse(readFileSync(0, "utf8")))));
