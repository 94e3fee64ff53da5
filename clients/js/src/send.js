/** Talking to a collector: rounds, batches, and sending again with growing pauses. */
import { concat } from "./bytes.js";
import { ArgumentError, PrivmeanError, ServerError } from "./errors.js";
import { parsed } from "./json.js";
import { Round } from "./round.js";

export const LARGEST_BODY = 1 << 22; // what a collector takes in one request
const LARGEST_ANSWER = 1 << 24;
const LONGEST_PAUSE = 60; // seconds
const AGAIN = new Set([408, 429]);

const ODD = "the server's answer cannot be read; check its address";
const SILENT = "the server does not answer; try again later, the report is kept";

export function addressOf(server) {
  let parts = null;
  try {
    parts = new URL(server);
  } catch {
    // said below
  }
  if (!parts || !["http:", "https:"].includes(parts.protocol) || /\s/.test(server)) {
    throw new ArgumentError("server", "is no web address", "write it with its scheme in front");
  }
  return server.replace(/\/$/, "");
}

async function get(address, { timeout = 30, fetch = globalThis.fetch } = {}) {
  let text;
  try {
    const answer = await fetch(address, { signal: AbortSignal.timeout(1000 * timeout) });
    if (!answer.ok) throw new ServerError(`the server refuses the request (${answer.status})`, answer.status);
    text = await answer.text();
  } catch (error) {
    if (error instanceof ServerError) throw error;
    throw new ServerError("the server does not answer; check its address");
  }
  if (text.length > LARGEST_ANSWER) throw new PrivmeanError(ODD);
  return text;
}

/** The rounds that a collector offers: round, digest, title, mechanism. */
export async function fetchRounds(server, options) {
  const text = await get(`${addressOf(server)}/rounds`, options);
  try {
    const result = parsed(text);
    if (Array.isArray(result)) return result;
  } catch {
    // said below
  }
  throw new PrivmeanError(ODD);
}

/** The description of one round; refused if it does not hash to the identifier asked for. */
export async function fetchRound(server, id, options) {
  if (!/^[0-9a-fA-F]{16}$/.test(id)) {
    throw new ArgumentError("id", "is no identifier", "give 16 hexadecimal digits");
  }
  const round = Round.fromText(await get(`${addressOf(server)}/rounds/${id.toLowerCase()}`, options));
  if (round.id !== id.toLowerCase()) {
    throw new PrivmeanError("the server's description is not the round asked for; do not answer");
  }
  return round;
}

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

/** Seconds until the next attempt: what the server asks for, else a random part of 2^k/4 seconds. */
export function pause(attempt, retryAfter, random = Math.random) {
  const asked = /^[0-9]{1,6}$/.test(retryAfter ?? "") ? Number(retryAfter) : 0;
  const own = Math.min(8, 0.25 * 2 ** attempt);
  return Math.min(LONGEST_PAUSE, Math.max(asked, own * (0.5 + random() / 2)));
}

/**
 * Send binary reports of one round in one request; the receipt of the server. The same bytes go
 * again after an error: the server recognises them, and nothing counts twice.
 */
export async function send(
  server,
  id,
  reports,
  { timeout = 30, attempts = 5, fetch = globalThis.fetch, wait = sleep } = {},
) {
  if (reports.length > LARGEST_BODY) {
    throw new ArgumentError("reports", `are more than ${LARGEST_BODY} bytes`, "send fewer at once");
  }
  const address = `${addressOf(server)}/rounds/${id}/reports`;
  let status = 0;
  for (let attempt = 0; attempt < attempts; attempt++) {
    let asked = null;
    try {
      const answer = await fetch(address, {
        method: "POST",
        body: reports,
        headers: { "Content-Type": "application/octet-stream" },
        signal: AbortSignal.timeout(1000 * timeout),
      });
      status = answer.status;
      if (answer.ok) {
        const receipt = parsed(await answer.text());
        if (isReceipt(receipt)) return receipt;
      } else if (status < 500 && !AGAIN.has(status)) {
        throw new ServerError(`the server refuses the request (${status})`, status, false);
      }
      asked = answer.headers.get("Retry-After");
    } catch (error) {
      if (error instanceof ServerError) throw error; // anything else: no answer, or a broken one
    }
    if (attempt + 1 < attempts) await wait(pause(attempt, asked));
  }
  throw new ServerError(SILENT, status);
}

/** Whether an answer says what a server did. Another one (a network's login page) took nothing. */
function isReceipt(answer) {
  const { accepted, duplicate, rejected } = answer ?? {};
  const counts = [accepted, duplicate, ...Object.values(rejected ?? {})];
  return typeof rejected === "object" && rejected !== null && counts.every(Number.isInteger);
}

/** Reports in bodies of at most `most` bytes, none of them cut. */
export function batches(reports, most = LARGEST_BODY) {
  const result = [];
  let size = Infinity;
  for (const report of reports) {
    if (size + report.length > most) {
      result.push([]);
      size = 0;
    }
    result.at(-1).push(report);
    size += report.length;
  }
  return result;
}

/** Send many reports of one round, each batch with its own attempts; the receipts added up. */
export async function sendMany(server, id, reports, { most = LARGEST_BODY, ...options } = {}) {
  const sum = { accepted: 0, duplicate: 0, rejected: {} };
  for (const batch of batches(reports, most)) {
    let receipt;
    try {
      receipt = await send(server, id, concat(...batch), options);
    } catch (error) {
      if (error.status !== 413 || batch.length < 2) throw error;
      const half = Math.ceil(concat(...batch).length / 2); // this server takes less at once
      receipt = await sendMany(server, id, batch, { most: Math.max(half, batch[0].length), ...options });
    }
    sum.accepted += receipt.accepted;
    sum.duplicate += receipt.duplicate;
    for (const [reason, count] of Object.entries(receipt.rejected)) {
      sum.rejected[reason] = (sum.rejected[reason] ?? 0) + count;
    }
  }
  return sum;
}
