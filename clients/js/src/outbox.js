/**
 * Reports that wait for a server. What lies here is private already; sending it twice is
 * harmless, and losing it too: the ledger makes the same bytes again.
 */
import { hex, unhex } from "./bytes.js";
import { ServerError } from "./errors.js";
import { sha256 } from "./hashes.js";
import { openDatabase } from "./ledger.js";
import { utf8 } from "./part.js";
import { addressOf, sendMany } from "./send.js";

/** Forgets with the process. */
export class MemoryStore {
  #items = new Map();

  async put(item) {
    this.#items.set(item.id, item);
  }

  async all() {
    return [...this.#items.values()];
  }

  async remove(ids) {
    for (const id of ids) this.#items.delete(id);
  }
}

/** In the browser. */
export class IndexedDBStore {
  #database;

  constructor({ name = "privmean" } = {}) {
    this.#database = openDatabase(name);
  }

  async #transact(mode, work) {
    const database = await this.#database;
    return new Promise((resolve, reject) => {
      const transaction = database.transaction("outbox", mode);
      const request = work(transaction.objectStore("outbox"));
      transaction.oncomplete = () => resolve(request?.result);
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
  }

  async put(item) {
    await this.#transact("readwrite", (store) => store.put(item));
  }

  async all() {
    return this.#transact("readonly", (store) => store.getAll());
  }

  async remove(ids) {
    await this.#transact("readwrite", (store) => {
      for (const id of ids) store.delete(id);
    });
  }
}

/** A queue of reports for any number of servers and rounds. */
export class Outbox {
  constructor(store = new MemoryStore()) {
    this.store = store;
    Object.freeze(this);
  }

  /** Keep a report until a server has taken it. The same report is kept once. */
  async put(server, id, report) {
    const address = addressOf(server);
    const name = hex(sha256(utf8(`${address} ${id} ${hex(report)}`)));
    await this.store.put({ id: name, server: address, round: id, report: hex(report) });
  }

  /** How many wait. */
  async size() {
    return (await this.store.all()).length;
  }

  /**
   * Try to send everything, a batch a round. What a server took, knew or refused for good leaves
   * the queue; what found no answer stays. Returns the receipts added up, how many wait, and why
   * servers refused whole requests.
   */
  async flush(options) {
    const groups = new Map();
    for (const item of await this.store.all()) {
      const name = `${item.round} ${item.server}`;
      groups.set(name, [...(groups.get(name) ?? []), item]);
    }
    const result = { accepted: 0, duplicate: 0, rejected: {}, waiting: 0, problems: [] };
    for (const items of groups.values()) {
      const [{ server, round }] = items;
      try {
        const receipt = await sendMany(server, round, items.map((item) => unhex(item.report)), options);
        result.accepted += receipt.accepted;
        result.duplicate += receipt.duplicate;
        for (const [reason, count] of Object.entries(receipt.rejected)) {
          result.rejected[reason] = (result.rejected[reason] ?? 0) + count;
        }
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        result.problems.push(`${server}: ${error.message}`);
        if (error.kept) {
          result.waiting += items.length;
          continue;
        }
      }
      await this.store.remove(items.map((item) => item.id));
    }
    return result;
  }
}
