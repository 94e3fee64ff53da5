/** The client half of privmean's local reports. Format: docs/wire-format.md. */

/** An exact non-negative fraction. */
export interface Fraction {
  readonly n: bigint;
  readonly d: bigint;
}

/** A number, or text: "0.1" or "1/3". Numbers are read by their shortest decimal form. */
export type Epsilon = number | string | Fraction;

export type Mechanism =
  | "one-bit"
  | "piecewise"
  | "hybrid"
  | "ball-bit"
  | "closest"
  | "sketch"
  | "hadamard"
  | "subset";

export interface Part {
  readonly seed: Uint8Array;
  readonly shares: readonly number[];
  readonly index: number;
}

/** The public description of one round. */
export class Round {
  private constructor(values: object);
  /** Throws ArgumentError for what is no round. */
  static fromText(text: string): Round;
  readonly mechanism: Mechanism;
  readonly menu: readonly Fraction[];
  readonly persons: number;
  readonly seed: Uint8Array;
  readonly title: string;
  readonly beta: number;
  readonly lower: readonly number[];
  readonly upper: readonly number[];
  readonly radius: number | null;
  readonly dimension: number | null;
  readonly items: number | null;
  readonly other: number | null;
  readonly bins: number | null;
  readonly rows: number | null;
  readonly row_choice: "assigned" | "chosen";
  readonly sigma: readonly number[];
  readonly step: Fraction | null;
  readonly candidates: number | null;
  readonly favoured: readonly number[];
  readonly issued: boolean;
  readonly closes: number | null;
  readonly part: Part | null;
  readonly messages: number;
  readonly points: readonly number[];
  readonly coordinates: number;
  /** The canonical text; its BLAKE2b hash; the hash's first 8 bytes; these in hexadecimal. */
  readonly text: string;
  readonly digest: Uint8Array;
  readonly identifier: Uint8Array;
  readonly id: string;
  /** The largest level that a client allowing `epsilon` can answer at. */
  level(epsilon: Epsilon): number;
  row(nonce: Uint8Array): bigint;
  selector(nonce: Uint8Array): bigint;
  coordinate(nonce: Uint8Array): number;
}

export class Ticket {
  constructor(round: string, nonce: Uint8Array, level: number, key: Uint8Array);
  static fromText(text: string): Ticket;
  readonly round: string;
  readonly nonce: Uint8Array;
  readonly level: number;
  readonly key: Uint8Array;
}

/** A source of uniform bytes, and exact coins made of them. */
export interface Entropy {
  readonly secure: boolean;
  bytes(size: number): Uint8Array;
  word(): bigint;
  coin(threshold: bigint): boolean;
  fair(): boolean;
  below(bound: bigint): bigint;
}

export class SystemEntropy implements Entropy {
  readonly secure: boolean;
  bytes(size: number): Uint8Array;
  word(): bigint;
  coin(threshold: bigint): boolean;
  fair(): boolean;
  below(bound: bigint): bigint;
}

/** Stated bytes. NOT PRIVATE: for tests only. */
export class StatedEntropy implements Entropy {
  constructor(data: Uint8Array);
  readonly secure: boolean;
  bytes(size: number): Uint8Array;
  word(): bigint;
  coin(threshold: bigint): boolean;
  fair(): boolean;
  below(bound: bigint): bigint;
}

export interface Options {
  epsilon: Epsilon;
  ticket?: Ticket | null;
  point?: number | null;
  nonce?: Uint8Array | null;
  entropy?: Entropy | null;
}

/** One report. Each call spends epsilon again: see Client. `value` may be anything. */
export function randomize(round: Round, value: unknown, options: Options): Uint8Array;

export const RANDOMIZERS: Readonly<Record<Mechanism, unknown>>;

/** Remembers what was sent, and the total that a person allows. */
export interface Ledger {
  once(digest: Uint8Array, epsilon: Fraction, make: () => Uint8Array): Promise<Uint8Array>;
  spent(): Promise<number>;
}

export class MemoryLedger implements Ledger {
  constructor(options: { limit: number | string });
  once(digest: Uint8Array, epsilon: Fraction, make: () => Uint8Array): Promise<Uint8Array>;
  spent(): Promise<number>;
}

/** In the browser. */
export class IndexedDBLedger implements Ledger {
  constructor(options: { limit: number | string; name?: string });
  once(digest: Uint8Array, epsilon: Fraction, make: () => Uint8Array): Promise<Uint8Array>;
  spent(): Promise<number>;
  close(): Promise<void>;
}

/** One person's side. */
export class Client {
  constructor(options: { epsilon: Epsilon; ledger: Ledger; identity?: string | null });
  readonly epsilon: Fraction;
  readonly ledger: Ledger;
  readonly identity: string | null;
  /** Made once, the same bytes at every further call; null if the round asks other clients.
   * ArgumentError for a new report after the round's deadline. */
  report(
    round: Round,
    value: unknown,
    options?: { ticket?: Ticket | null; point?: number | null },
  ): Promise<Uint8Array | null>;
}

export interface Decoded {
  readonly mechanism: Mechanism;
  readonly round: string;
  readonly nonce: Uint8Array;
  readonly level: number;
  readonly payload: Uint8Array;
  readonly mac: Uint8Array;
}

/** Throws ReportError with the reason that a server would count. */
export function decode(report: Uint8Array): Decoded;
export function toJson(report: Uint8Array): string;

export interface Receipt {
  accepted: number;
  duplicate: number;
  rejected: Record<string, number>;
}

export interface Sending {
  timeout?: number;
  attempts?: number;
  most?: number;
  fetch?: typeof globalThis.fetch;
  wait?: (seconds: number) => Promise<void>;
}

export interface Offer {
  round: string;
  digest: string;
  title: string;
  mechanism: string;
  [field: string]: unknown;
}

export function fetchRounds(server: string, options?: Sending): Promise<Offer[]>;
/** Refused if the answer does not hash to `id`. */
export function fetchRound(server: string, id: string, options?: Sending): Promise<Round>;
export function send(server: string, id: string, reports: Uint8Array, options?: Sending): Promise<Receipt>;
export function sendMany(
  server: string,
  id: string,
  reports: Iterable<Uint8Array>,
  options?: Sending,
): Promise<Receipt>;

export interface Waiting {
  id: string;
  server: string;
  round: string;
  report: string;
}

export interface Store {
  put(item: Waiting): Promise<void>;
  all(): Promise<Waiting[]>;
  remove(ids: string[]): Promise<void>;
}

export class MemoryStore implements Store {
  put(item: Waiting): Promise<void>;
  all(): Promise<Waiting[]>;
  remove(ids: string[]): Promise<void>;
}

/** In the browser. */
export class IndexedDBStore implements Store {
  constructor(options?: { name?: string });
  put(item: Waiting): Promise<void>;
  all(): Promise<Waiting[]>;
  remove(ids: string[]): Promise<void>;
}

/** A queue of reports that wait for a network. */
export class Outbox {
  constructor(store?: Store);
  readonly store: Store;
  put(server: string, id: string, report: Uint8Array): Promise<void>;
  size(): Promise<number>;
  flush(options?: Sending): Promise<Receipt & { waiting: number; problems: string[] }>;
}

export class PrivmeanError extends Error {}

export class ArgumentError extends PrivmeanError {
  readonly argument: string;
}

export class BudgetExceeded extends PrivmeanError {
  readonly asked: number;
  readonly left: number;
}

export class ReportError extends PrivmeanError {
  readonly reason: string;
}

/** `kept`: whether the same bytes may be taken later. */
export class ServerError extends PrivmeanError {
  readonly status: number;
  readonly kept: boolean;
}
