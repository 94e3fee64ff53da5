// Reports of a task: whole numbers, split into two shares with a proof that they are in range.
import { Prio3Sum, Prio3SumVec } from "@divviup/prio3";
import { createHash, randomBytes } from "node:crypto";
import { parsed } from "../js/src/json.js";

const FORMAT = "privmean two servers 1";

export class Task {
  constructor(text) {
    const said = parsed(text);
    if (said.format !== FORMAT) throw new Error("task is no task of privmean");
    if (said.lower.length !== said.upper.length || said.lower.length < 1) {
      throw new Error("task: give both limits of every value");
    }
    Object.assign(this, said);
    // whoever changes a task changes its digest, and with it every key and nonce
    this.digest = createHash("sha256").update(text).digest();
    const length = said.lower.length;
    const chunkLength = Math.max(1, Math.round(Math.sqrt(said.bits * length)));
    this.vdaf = length === 1
      ? new Prio3Sum({ shares: 2, bits: said.bits })
      : new Prio3SumVec({ shares: 2, length, bits: said.bits, chunkLength });
  }

  // A person's values, clipped, as whole numbers; what is missing or no number is the middle.
  encode(values) {
    if (values.length !== this.lower.length) throw new Error("values: give one a limit");
    const steps = 2 ** this.bits - 1;
    return values.map((value, k) => {
      const [low, high] = [this.lower[k], this.upper[k]];
      const known = typeof value === "number" && !Number.isNaN(value);
      const inside = known ? Math.min(Math.max(value, low), high) : (low + high) / 2;
      return Math.min(steps, Math.max(0, Math.round(((inside - low) / (high - low)) * steps)));
    });
  }

  // The two messages of one person, one for each server.
  async report(values) {
    const { vdaf } = this;
    const whole = this.encode(values);
    const nonce = randomBytes(16);
    const { publicShare, inputShares } = await vdaf.shard(
      whole.length === 1 ? whole[0] : whole, nonce, randomBytes(vdaf.randSize));
    const parts = publicShare.jointRandParts.map(hex);
    return inputShares.map((share) => ({
      task: this.identity,
      nonce: hex(nonce),
      parts,
      measurement: hex(vdaf.field.encode(share.measurementShare)),
      proof: hex(vdaf.field.encode(share.proofsShare)),
      blind: hex(share.blind),
    }));
  }

  // What a server holds of a message; throws if it is not of this task or malformed.
  read(message) {
    const { vdaf } = this;
    const { flp, xof, proofs } = vdaf;
    if (message.task !== this.identity) throw new Error("another task");
    const seeds = flp.jointRandLen > 0 ? 2 : 0;
    if (!Array.isArray(message.parts) || message.parts.length !== seeds) throw new Error("parts");
    return {
      nonce: bytes(message.nonce, vdaf.nonceSize),
      publicShare: { jointRandParts: message.parts.map((part) => bytes(part, xof.seedSize)) },
      inputShare: {
        measurementShare: this.vector(message.measurement, flp.measurementLen),
        proofsShare: this.vector(message.proof, flp.proofLen * proofs),
        blind: bytes(message.blind, seeds ? xof.seedSize : 0),
      },
    };
  }

  // Field elements of a hex text; those that are not below the modulus are refused.
  vector(text, length) {
    const { field } = this.vdaf;
    return field.decode(bytes(text, length * field.encodedSize));
  }
}

export function hex(data) {
  return Buffer.from(data).toString("hex");
}

export function bytes(text, length) {
  if (typeof text !== "string" || text.length !== 2 * length || !/^[0-9a-f]*$/.test(text)) {
    throw new Error("not so many bytes in hex");
  }
  return Buffer.from(text, "hex");
}
