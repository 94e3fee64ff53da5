/** From a private value to the bytes that leave the person's device. */
import { ballBit } from "./ball.js";
import { concat, toLittleEndian } from "./bytes.js";
import { closest } from "./closest.js";
import { SystemEntropy } from "./entropy.js";
import { ArgumentError } from "./errors.js";
import { exactEpsilon } from "./exact.js";
import { rowBit, subset } from "./items.js";
import { chosen } from "./part.js";
import { encode } from "./report.js";
import { hybrid, oneBit, piecewise } from "./scalar.js";

export const RANDOMIZERS = Object.freeze({
  "one-bit": oneBit,
  piecewise,
  hybrid,
  "ball-bit": ballBit,
  closest,
  sketch: rowBit,
  hadamard: rowBit,
  subset,
});

/** The level to answer at: the ticket's, if the client allows it, else the largest allowed. */
function levelOf(round, epsilon, ticket) {
  const own = round.level(epsilon);
  if (!round.issued) {
    if (ticket) throw new ArgumentError("ticket", "is not asked for", "leave it out");
    return own;
  }
  if (!ticket) throw new ArgumentError("ticket", "is needed", "ask the server's operator");
  if (ticket.round !== round.id) {
    throw new ArgumentError("ticket", "is for another round", "ask for the right one");
  }
  if (ticket.level > own) {
    throw new ArgumentError("ticket", "asks for more epsilon than this client allows", "refuse it");
  }
  return ticket.level;
}

/** The design point as it stands before the payload; nothing in other rounds. */
function placeOf(round, point) {
  const count = round.points.length;
  if (!count) {
    if (point !== null) throw new ArgumentError("point", "is not asked for", "leave it out");
    return new Uint8Array(0);
  }
  if (!Number.isInteger(point) || point < 0 || point >= count) {
    throw new ArgumentError("point", "is no design point", `give 0 to ${count - 1}`);
  }
  return toLittleEndian(point, 4);
}

/**
 * One report on `value`, ready to be sent. Each call spends epsilon again: see `Client`.
 *
 * The law of the bytes changes by a factor of at most e^epsilon between any two values, exactly,
 * whatever they are; a missing value sends a report too. point: the number of the design point in a
 * round for a curve, which everybody can see. entropy: Web Crypto unless given;
 * anything else is for tests only.
 */
export function randomize(round, value, options) {
  const { epsilon, ticket = null, point = null, nonce = null, entropy = null } = options;
  const level = levelOf(round, epsilon, ticket);
  const place = placeOf(round, point);
  const source = entropy ?? new SystemEntropy();
  const own = ticket ? ticket.nonce : (nonce ?? source.bytes(16));
  if (!(own instanceof Uint8Array) || own.length !== 16) {
    throw new ArgumentError("nonce", "is not 16 bytes", "let the client draw it");
  }
  const payload = RANDOMIZERS[round.mechanism](round, level, value, own, source);
  return encode(round, own, level, concat(place, payload), ticket ? ticket.key : null);
}

/**
 * One person's side: an epsilon of its own, and a ledger that never spends it twice.
 *
 * epsilon: the most that one measurement may spend. ledger: remembers what was sent, and the total
 * that this person allows. identity: a public name, for rounds that ask a part of the clients.
 */
export class Client {
  constructor({ epsilon, ledger, identity = null }) {
    this.epsilon = exactEpsilon("epsilon", epsilon);
    this.ledger = ledger;
    this.identity = identity;
    Object.freeze(this);
  }

  /**
   * The report for this round: made once, and the same bytes at every further call. null if the
   * round asks other clients. BudgetExceeded if the ledger would pass its limit, ArgumentError for
   * a new report after the round's deadline; nothing is spent then.
   */
  async report(round, value, { ticket = null, point = null } = {}) {
    if (round.part !== null) {
      if (this.identity === null) {
        throw new ArgumentError("identity", "is needed: the round asks a part", "give one");
      }
      if (!chosen(round.part, this.identity)) return null;
    }
    const level = levelOf(round, this.epsilon, ticket);
    placeOf(round, point); // refused before anything is written down
    const make = () => {
      if (round.closes !== null && Date.now() / 1000 > round.closes) {
        throw new ArgumentError("round", "is over: a report would be late", "do not answer it");
      }
      return randomize(round, value, { epsilon: this.epsilon, ticket, point });
    };
    return this.ledger.once(round.digest, round.menu[level], make);
  }
}
