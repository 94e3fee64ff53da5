/** The client half of privmean's local reports, for browsers and Node. */
export { Client, randomize, RANDOMIZERS } from "./client.js";
export { StatedEntropy, SystemEntropy } from "./entropy.js";
export { ArgumentError, BudgetExceeded, PrivmeanError, ReportError, ServerError } from "./errors.js";
export { IndexedDBLedger, MemoryLedger } from "./ledger.js";
export { IndexedDBStore, MemoryStore, Outbox } from "./outbox.js";
export { decode, Ticket, toJson } from "./report.js";
export { Round } from "./round.js";
export { fetchRound, fetchRounds, send, sendMany } from "./send.js";
