export * from "./index.js";
import type { Fraction, Ledger, Store, Waiting } from "./index.js";

/** A ledger on disk: a folder with one file a report. */
export class FolderLedger implements Ledger {
  constructor(folder: string, options: { limit: number | string });
  once(digest: Uint8Array, epsilon: Fraction, make: () => Uint8Array): Promise<Uint8Array>;
  spent(): Promise<number>;
}

/** What waits to be sent, a file a report. */
export class FolderStore implements Store {
  constructor(folder: string);
  put(item: Waiting): Promise<void>;
  all(): Promise<Waiting[]>;
  remove(ids: string[]): Promise<void>;
}
