/** The same for Node, with a ledger and a queue on disk. */
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import path from "node:path";
import { hex, unhex } from "./bytes.js";
import { ArgumentError } from "./errors.js";
import { asNumber } from "./exact.js";
import { sha256 } from "./hashes.js";
import { decide, limitOf, total } from "./ledger.js";
import { utf8 } from "./part.js";

export * from "./index.js";

function synchronise(folder) {
  const handle = fs.openSync(folder, "r");
  try {
    fs.fsyncSync(handle);
  } finally {
    fs.closeSync(handle);
  }
}

/** A new file, whole and on the disk before it has its name; false if the name is taken. */
function publish(folder, name, text) {
  const draft = path.join(folder, `.${hex(randomBytes(8))}`);
  const handle = fs.openSync(draft, "wx", 0o600);
  try {
    fs.writeFileSync(handle, text);
    fs.fsyncSync(handle);
  } finally {
    fs.closeSync(handle);
  }
  try {
    fs.linkSync(draft, path.join(folder, name)); // fails if there is one: nobody is overwritten
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  } finally {
    fs.unlinkSync(draft);
  }
  synchronise(folder);
  return true;
}

const nameOf = (number) => number.toString().padStart(8, "0");

/**
 * A ledger on disk: a folder for its owner alone, with one numbered file a report. Each names the
 * digest of the one before. Any number of processes may use it, and none waits for another: who
 * comes second finds the number taken, forgets what it drew and reads again. A report is on the
 * disk before it is handed out. The folder must not be put back to an older state: what came later
 * would be forgotten, and answering the same rounds again would spend again.
 */
export class FolderLedger {
  #folder;

  constructor(folder, { limit }) {
    this.limit = limitOf(limit);
    if (typeof folder !== "string" || folder === "") {
      throw new ArgumentError("folder", "is empty", "name the folder that keeps the reports");
    }
    this.#folder = path.resolve(folder);
    fs.mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    fs.chmodSync(this.#folder, 0o700);
    synchronise(path.dirname(this.#folder));
    this.#read();
  }

  /** All entries, checked, and the digest of the last. */
  #read() {
    const names = fs.readdirSync(this.#folder).filter((name) => /^[0-9]{8}$/.test(name)).sort();
    const entries = [];
    let chain = "privmean client ledger 1";
    names.forEach((name, k) => {
      const text = fs.readFileSync(path.join(this.#folder, name), "utf8");
      let entry = null;
      try {
        entry = JSON.parse(text);
      } catch {
        // said below
      }
      if (name !== nameOf(k + 1) || entry?.before !== chain) {
        throw new ArgumentError("folder", "holds a ledger with a hole or damage", "restore it whole");
      }
      chain = hex(sha256(utf8(text)));
      entries.push(entry);
    });
    return { entries, chain };
  }

  async once(digest, epsilon, make) {
    for (;;) {
      const { entries, chain } = this.#read();
      const { known, entry } = decide(entries, this.limit, digest, epsilon, make);
      const text = JSON.stringify({ ...entry, before: chain });
      if (known || publish(this.#folder, nameOf(entries.length + 1), text)) return unhex(entry.report);
    }
  }

  async spent() {
    return asNumber(total(this.#read().entries));
  }
}

/** What waits to be sent, a file a report. */
export class FolderStore {
  #folder;

  constructor(folder) {
    this.#folder = path.resolve(folder);
    fs.mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
  }

  async put(item) {
    publish(this.#folder, item.id, JSON.stringify(item));
  }

  async all() {
    const names = fs.readdirSync(this.#folder).filter((name) => /^[0-9a-f]{64}$/.test(name)).sort();
    return names.flatMap((name) => {
      try {
        return [JSON.parse(fs.readFileSync(path.join(this.#folder, name), "utf8"))];
      } catch {
        return []; // sent by another process meanwhile
      }
    });
  }

  async remove(ids) {
    for (const id of ids) fs.rmSync(path.join(this.#folder, id), { force: true });
  }
}
