/** Where randomness comes from: Web Crypto. Anything else is not private and says so. */
import { littleEndian } from "./bytes.js";
import { WORD } from "./exact.js";

const HALF = WORD / 2n;

/** What a randomizer asks: coins with exact integer chances, and uniform integers. */
export class Entropy {
  /** false for anything reproducible */
  get secure() {
    return false;
  }

  /** `size` uniform bytes */
  bytes(_size) {
    throw new Error("a source of bytes is needed");
  }

  /** a uniform integer from 0 to 2^64 - 1 */
  word() {
    return littleEndian(this.bytes(8));
  }

  /** true with probability threshold/2^64 */
  coin(threshold) {
    return this.word() < threshold;
  }

  fair() {
    return this.coin(HALF);
  }

  /** a uniform integer from 0 to bound - 1, exactly (rejection; Lemire 2019 below 2^64) */
  below(bound) {
    if (bound <= WORD) {
      for (;;) {
        const product = this.word() * bound;
        if (product % WORD >= WORD % bound) return product / WORD;
      }
    }
    const bits = (bound - 1n).toString(2).length;
    const spare = BigInt((64 - (bits % 64)) % 64);
    for (;;) {
      let value = 0n;
      for (let k = 0; k < bits; k += 64) value = (value << 64n) | this.word();
      value >>= spare;
      if (value < bound) return value;
    }
  }
}

/** The platform's cryptographic generator: what every real client uses. */
export class SystemEntropy extends Entropy {
  #pool = new Uint8Array(1024);
  #place = 1024;

  get secure() {
    return true;
  }

  bytes(size) {
    const result = new Uint8Array(size);
    for (let done = 0; done < size; ) {
      if (this.#place === this.#pool.length) {
        globalThis.crypto.getRandomValues(this.#pool);
        this.#place = 0;
      }
      const part = Math.min(size - done, this.#pool.length - this.#place);
      result.set(this.#pool.subarray(this.#place, this.#place + part), done);
      this.#pool.fill(0, this.#place, this.#place + part); // what was used is not kept
      this.#place += part;
      done += part;
    }
    return result;
  }
}

/** Stated bytes, one after the other. NOT PRIVATE: for tests only. */
export class StatedEntropy extends Entropy {
  #data;
  #place = 0;

  constructor(data) {
    super();
    this.#data = data;
  }

  bytes(size) {
    if (this.#place + size > this.#data.length) throw new Error("the stated bytes are used up");
    this.#place += size;
    return this.#data.slice(this.#place - size, this.#place);
  }
}
