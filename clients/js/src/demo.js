/** The page that reports one value to the collector which serves it. */
import { Client, IndexedDBLedger, IndexedDBStore, Outbox, Ticket } from "./index.js";
import { hex } from "./bytes.js";
import { asNumber, fraction } from "./exact.js";
import { RANDOMIZERS } from "./client.js";
import { fetchRound, fetchRounds } from "./send.js";

const at = (id) => document.getElementById(id);
const SERVER = new URL("..", window.location.href).href.replace(/\/$/, "");
const outbox = new Outbox(new IndexedDBStore());
let round = null;

function option(value, text) {
  const result = document.createElement("option");
  result.value = value;
  result.textContent = text;
  return result;
}

/** What is asked, in words. */
function kindOf() {
  if (round.dimension !== null) return `${round.dimension} numbers, with spaces between them`;
  if (round.bins === null && round.items !== null) return `a whole number from 0 to ${round.items - 1}`;
  if (round.coordinates > 1) return `${round.coordinates} numbers, with spaces between them`;
  return `a number from ${round.lower[0]} to ${round.upper[0]}`;
}

async function choose() {
  at("send").disabled = true;
  round = await fetchRound(SERVER, at("round").value);
  at("question").textContent = `${round.title || "No title"}. Mechanism ${round.mechanism}, digest ${hex(round.digest)}`;
  at("kind").textContent = `(${kindOf()})`;
  const count = Math.min(round.menu.length, 200); // of a ladder's many steps, some
  const some = Array.from({ length: count }, (_, k) =>
    round.menu[Math.round((k * (round.menu.length - 1)) / Math.max(1, count - 1))],
  );
  const each = some.map(({ n, d }) => fraction(n * BigInt(round.messages), d));
  at("epsilon").replaceChildren(...each.map((e) => option(`${e.n}/${e.d}`, String(asNumber(e)))));
  at("point").replaceChildren(...round.points.map((x, k) => option(k, x)));
  at("pointline").hidden = !round.points.length;
  at("ticketline").hidden = !round.issued;
  at("identityline").hidden = round.part === null;
  at("send").disabled = !Object.hasOwn(RANDOMIZERS, round.mechanism);
  at("said").textContent = at("send").disabled ? "this page has no client for this mechanism" : "";
}

function typed() {
  const words = at("value").value.trim().split(/[\s,;]+/);
  return words.length === 1 && round.dimension === null ? words[0] : words;
}

async function show() {
  const ledger = new IndexedDBLedger({ limit: at("limit").value });
  at("spent").textContent = String(Number((await ledger.spent()).toPrecision(6)));
  await ledger.close();
  at("waiting").textContent = String(await outbox.size());
}

async function flush() {
  const found = await outbox.flush();
  await show();
  const refused = Object.entries(found.rejected).map(([reason, count]) => `${count} refused: ${reason}`);
  const parts = [
    found.accepted ? "the server has counted the report" : "",
    found.duplicate ? "the server had this report already" : "",
    ...refused,
    ...found.problems,
  ];
  return parts.filter(Boolean).join("; ");
}

async function report(event) {
  event.preventDefault();
  at("send").disabled = true;
  try {
    await globalThis.navigator.storage?.persist?.(); // asks that the ledger is not cleared to save room
    const ledger = new IndexedDBLedger({ limit: at("limit").value });
    const client = new Client({
      epsilon: at("epsilon").value,
      ledger,
      identity: round.part === null ? null : at("identity").value,
    });
    const bytes = await client.report(round, typed(), {
      ticket: round.issued ? Ticket.fromText(at("ticket").value) : null,
      point: round.points.length ? Number(at("point").value) : null,
    });
    await ledger.close();
    if (bytes === null) {
      at("said").textContent = "this round asks other clients; nothing was sent";
    } else {
      at("bytes").textContent = hex(bytes);
      await outbox.put(SERVER, round.id, bytes);
      at("said").textContent = await flush();
    }
  } catch (error) {
    at("said").textContent = error.message;
  }
  at("send").disabled = false;
}

async function start() {
  at("form").addEventListener("submit", report);
  at("round").addEventListener("change", () => choose().catch((error) => (at("said").textContent = error.message)));
  globalThis.addEventListener("online", () => flush().then((words) => (at("said").textContent = words)));
  await show();
  const rounds = (await fetchRounds(SERVER)).filter(({ state }) => state !== "closed");
  at("round").replaceChildren(...rounds.map((item) => option(item.round, item.title || item.round)));
  const asked = globalThis.location.hash.slice(1);
  if (rounds.some((item) => item.round === asked)) at("round").value = asked;
  if (!rounds.length) throw new Error("this server has no open question");
  await choose();
  if ((await outbox.size()) > 0) at("said").textContent = await flush();
}

start().catch((error) => (at("said").textContent = error.message));
