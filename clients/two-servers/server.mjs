// One of two servers: node server.mjs TASK --role 0|1 --port P --peer URL --secrets FILE --state FOLDER
//
// Reports wait until an administrator says `POST /finish` to server 0. Both servers then check every
// proof together; a report that only one of them has, or whose proof fails, is left out by both. Each
// adds noise to its sums (`privmean two-servers noise`) before the other one sees them, once a task.
// SECRETS: JSON with `verify` (16 bytes in hex), `peer` and `admin` (tokens); the same for both.
// A request that is not there whole after --patience seconds (10) is cut. TLS is for whatever stands in
// front. Reports live in memory: a server that is stopped ends its task.
import { execFileSync } from "node:child_process";
import { createHash, timingSafeEqual } from "node:crypto";
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { parsed } from "../js/src/json.js";
import { bytes, hex, Task } from "./shares.mjs";

const BATCH = 100;
const MOST = 4_000_000; // reports that wait
const LARGEST = 1 << 24; // bytes of a message of the other server or the administrator
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const { values: said, positionals } = parseArgs({
  allowPositionals: true,
  options: Object.fromEntries(
    ["role", "port", "peer", "secrets", "state", "privmean", "patience"].map((name) => [name, { type: "string" }])),
});
const role = Number(said.role);
if (role !== 0 && role !== 1) throw new Error("--role is 0 or 1");
const text = readFileSync(positionals[0], "utf8");
const task = new Task(text);
const secrets = JSON.parse(readFileSync(said.secrets, "utf8"));
const { vdaf } = task;
// each task has a key of its own: a key that serves two would let a client choose its proof
const verifyKey = createHash("sha256").update(bytes(secrets.verify, 16)).update(task.digest)
  .digest().subarray(0, vdaf.verifyKeySize);

const waiting = new Map(); // nonce: what this server holds of a report
const seen = new Set(); // every nonce that came, for good
const sums = { shares: null, persons: 0, digest: createHash("sha256"), refused: 0 };
let closed = false;
let shown = null;

// a task is served once: what was drawn for it is not drawn again by a server that is started anew
mkdirSync(said.state, { recursive: true, mode: 0o700 });
closeSync(openSync(join(said.state, `${task.identity}.${role}.started`), "wx", 0o600));

function take(message) {
  const held = task.read(message);
  const nonce = hex(held.nonce);
  if (closed) return 410;
  if (seen.has(nonce)) return 409;
  if (waiting.size >= MOST) return 503;
  seen.add(nonce);
  waiting.set(nonce, held);
  return 201;
}

async function first(nonce) {
  const held = waiting.get(nonce);
  waiting.delete(nonce); // a report is looked at once, whatever comes of it
  return vdaf.prepareInit(verifyKey, role, null, held.nonce, held.publicShare, held.inputShare);
}

// Whether a report counts, from the preparation shares of both; its share is added if it does.
async function second(nonce, states, own, other) {
  const both = role === 0 ? [own, other] : [other, own];
  let output;
  try {
    const message = await vdaf.unshardPreparationShares(null, both);
    output = vdaf.prepareNext(states, message).outputShare;
  } catch {
    sums.refused++;
    return false;
  }
  sums.shares = sums.shares === null ? output : vdaf.field.vecAdd(sums.shares, output);
  sums.persons++;
  sums.digest.update(nonce);
  return true;
}

function written(share) {
  return { verifiers: hex(vdaf.field.encode(share.verifiersShare)), part: hex(share.jointRandomnessPart) };
}

function readPreparation(share) {
  const { flp, xof, proofs } = vdaf;
  return {
    verifiersShare: task.vector(share.verifiers, flp.verifierLen * proofs),
    jointRandomnessPart: bytes(share.part, flp.jointRandLen > 0 ? xof.seedSize : 0),
  };
}

// Server 1: the other one's preparation shares come with the nonces; own ones go back.
async function prepare({ nonces, shares }) {
  closed = true;
  const answers = [];
  for (const [k, nonce] of nonces.entries()) {
    if (!waiting.has(nonce)) {
      answers.push(null);
      continue;
    }
    const { preparationState, preparationShare } = await first(nonce);
    let other;
    try {
      other = readPreparation(shares[k]);
    } catch {
      sums.refused++;
      answers.push(null);
      continue;
    }
    await second(nonce, preparationState, preparationShare, other);
    answers.push(written(preparationShare));
  }
  return [200, { shares: answers }];
}

// The noisy sums of this server: drawn once, on disk before anybody sees them.
function show() {
  if (shown !== null) return shown;
  const command = (said.privmean ?? "privmean").split(" ");
  const made = execFileSync(command[0], [...command.slice(1), "two-servers", "noise", positionals[0]], {
    input: JSON.stringify(sums.shares.map(String)),
    encoding: "utf8",
  });
  writeFileSync(join(said.state, `${task.identity}.${role}.shown`), made, { flag: "wx", mode: 0o600 });
  shown = JSON.parse(made);
  return shown;
}

function agreed() {
  return sums.digest.copy().digest("hex");
}

// Server 1: the sums, if both accepted the same reports and enough of them.
function finishHelper({ digest, persons }) {
  if (digest !== agreed() || persons !== sums.persons) return [409, { error: "other reports" }];
  if (sums.persons < task.persons) return [409, { error: "too few reports" }];
  return [200, { share: show() }];
}

async function ask(path, body) {
  const answer = await fetch(`${said.peer}${path}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${secrets.peer}` },
    body: JSON.stringify(body),
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(`the other server answered ${answer.status}: ${found.error}`);
  return found;
}

// Server 0: the whole of it.
async function finish() {
  if (!closed) {
    closed = true;
    const nonces = [...waiting.keys()].sort();
    for (let at = 0; at < nonces.length; at += BATCH) {
      const batch = nonces.slice(at, at + BATCH);
      const made = [];
      for (const nonce of batch) made.push(await first(nonce));
      const answer = await ask("/prepare", {
        nonces: batch,
        shares: made.map((item) => written(item.preparationShare)),
      });
      for (const [k, nonce] of batch.entries()) {
        if (answer.shares[k] === null) {
          sums.refused++;
          continue;
        }
        const { preparationState, preparationShare } = made[k];
        await second(nonce, preparationState, preparationShare, readPreparation(answer.shares[k]));
      }
    }
  }
  if (sums.persons < task.persons) return [409, { error: "too few reports" }];
  const other = await ask("/sums", { digest: agreed(), persons: sums.persons });
  return [200, { persons: sums.persons, refused: sums.refused, shares: [show(), other.share] }];
}

function allowed(request, token) {
  const [one, two] = [request.headers.authorization ?? "", `Bearer ${token}`]
    .map((item) => createHash("sha256").update(item).digest());
  return timingSafeEqual(one, two);
}

// The message of a request, all of it; null where it is too long, has no end or is none.
async function messageOf(request, most) {
  const parts = [];
  let size = 0;
  try {
    for await (const part of request) {
      size += part.length;
      if (size > most) return null;
      parts.push(part);
    }
    return size ? parsed(UTF8.decode(Buffer.concat(parts))) : {};
  } catch {
    return null;
  }
}

const NOT_HERE = [404, { error: "not here" }];
const NONE = [400, { error: "not a message of this task" }];
const OWN = role === 0 ? { "/finish": finish } : { "/prepare": prepare, "/sums": finishHelper };
const TOKENS = { "/prepare": secrets.peer, "/sums": secrets.peer, "/finish": secrets.admin };

let turn = Promise.resolve(); // one after the other: what is checked is not changed meanwhile

// A message is received whole before it takes its turn: a slow sender holds up nobody.
async function answer(request) {
  const { url, method } = request;
  if (method !== "POST") return NOT_HERE;
  if (url === "/reports") {
    const message = await messageOf(request, longest);
    try {
      return message === null ? NONE : [take(message), {}];
    } catch {
      return NONE;
    }
  }
  if (!(url in TOKENS)) return NOT_HERE;
  if (!allowed(request, TOKENS[url])) return [401, { error: "token" }];
  const message = await messageOf(request, LARGEST);
  if (message === null) return NONE;
  if (!(url in OWN)) return NOT_HERE;
  const found = turn.then(() => OWN[url](message));
  turn = found.catch(() => {});
  try {
    return await found;
  } catch (problem) {
    const words = String(problem.message);
    return [502, { error: words.startsWith("the other server") ? words : "failed" }];
  }
}

// what an honest client sends, and some room
const honest = await task.report(task.lower);
const longest = 1024 + 2 * Math.max(...honest.map((item) => JSON.stringify(item).length));

const seconds = Number(said.patience ?? 10);
if (!(seconds > 0)) throw new Error("--patience is a number of seconds");
const patience = { requestTimeout: 1000 * seconds, headersTimeout: 1000 * seconds, connectionsCheckingInterval: 500 };
const server = createServer(patience, async (request, response) => {
  const [status, body] = await answer(request);
  // what was not read of a refused request is not waited for
  const rest = request.complete ? {} : { Connection: "close" };
  response.writeHead(status, { "Content-Type": "application/json", ...rest });
  response.end(JSON.stringify(body));
});
server.maxConnections = 1000;
server.listen(Number(said.port), "127.0.0.1", () => console.log(`listening ${server.address().port}`));
