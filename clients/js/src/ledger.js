/**
 * What a client has sent and spent. Every ledger has `once` and `spent`; where its entries lie
 * differs: memory (tests), IndexedDB (browsers), a folder (Node, in node.js).
 */
import { hex, unhex } from "./bytes.js";
import { ArgumentError, BudgetExceeded, PrivmeanError } from "./errors.js";
import { asNumber, atMost, fraction, plus, readFraction } from "./exact.js";

/** The limit as an exact positive fraction. */
export function limitOf(limit) {
  const result = readFraction("limit", limit);
  if (result.n <= 0n) throw new ArgumentError("limit", "must be positive", "try 4");
  return result;
}

export function total(entries) {
  return entries.reduce((sum, entry) => plus(sum, readEpsilon(entry.epsilon)), fraction(0n));
}

const readEpsilon = (text) => {
  const [n, d] = text.split("/").map(BigInt);
  return fraction(n, d);
};

/**
 * The entry to be stored, or the stored one. Synchronous, so that a transaction holds it: nobody
 * else reads or writes between. `make` draws the report; an entry that is not stored is never used.
 */
export function decide(entries, limit, digest, epsilon, make) {
  const round = hex(digest);
  const known = entries.find((entry) => entry.round === round);
  if (known) return { known: true, entry: known };
  const spent = total(entries);
  if (!atMost(plus(spent, epsilon), limit)) {
    throw new BudgetExceeded(asNumber(epsilon), asNumber(limit) - asNumber(spent));
  }
  const entry = { round, epsilon: `${epsilon.n}/${epsilon.d}`, report: hex(make()) };
  return { known: false, entry };
}

/** Forgets with the process: for tests. */
export class MemoryLedger {
  #entries = [];

  constructor({ limit }) {
    this.limit = limitOf(limit);
  }

  async once(digest, epsilon, make) {
    const { known, entry } = decide(this.#entries, this.limit, digest, epsilon, make);
    if (!known) this.#entries.push(entry);
    return unhex(entry.report);
  }

  async spent() {
    return asNumber(total(this.#entries));
  }
}

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** An IndexedDB database with one store of reports and one of what waits to be sent. */
export function openDatabase(name) {
  const opening = globalThis.indexedDB.open(name, 1);
  opening.onupgradeneeded = () => {
    opening.result.createObjectStore("reports", { keyPath: "round" });
    opening.result.createObjectStore("outbox", { keyPath: "id" });
  };
  return done(opening);
}

/**
 * A ledger in the browser. A report is handed out when its transaction is complete (with strict
 * durability where the browser knows it); tabs of one origin take turns. Clearing the site's data
 * deletes the ledger, and answering the same round again then spends again.
 */
export class IndexedDBLedger {
  #database;

  constructor({ limit, name = "privmean" }) {
    this.limit = limitOf(limit);
    this.#database = openDatabase(name);
  }

  async #transact(mode, work) {
    const database = await this.#database;
    return new Promise((resolve, reject) => {
      const transaction = database.transaction("reports", mode, { durability: "strict" });
      const store = transaction.objectStore("reports");
      const reading = store.getAll();
      let result;
      let problem = null;
      reading.onsuccess = () => {
        try {
          result = work(reading.result, store);
        } catch (error) {
          problem = error;
          transaction.abort();
        }
      };
      transaction.oncomplete = () => resolve(result);
      transaction.onabort = transaction.onerror = () =>
        reject(problem ?? new PrivmeanError("the ledger cannot be written; nothing is sent"));
    });
  }

  async once(digest, epsilon, make) {
    const found = await this.#transact("readwrite", (entries, store) => {
      const { known, entry } = decide(entries, this.limit, digest, epsilon, make);
      if (!known) store.add(entry);
      return entry;
    });
    return unhex(found.report);
  }

  async spent() {
    return this.#transact("readonly", (entries) => asNumber(total(entries)));
  }

  async close() {
    (await this.#database).close();
  }
}
