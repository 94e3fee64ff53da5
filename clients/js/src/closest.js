/** Vectors by the number of a public direction: the k-closest code. Proof: docs/proofs/local-ball.md. */
import { pole, publicDirection, unit } from "./ball.js";
import { toLittleEndian } from "./bytes.js";
import { exactSum } from "./domain.js";
import { oddsThreshold } from "./exact.js";

/** The favoured candidates: of so many directions the side towards the pole, nearest first. */
export function closestSet(heights, size) {
  const order = heights.map((_, i) => i);
  order.sort((i, j) => Math.abs(heights[j]) - Math.abs(heights[i]) || i - j);
  return order.slice(0, size).map((i) => 2 * i + (heights[i] < 0 ? 1 : 0));
}

/** A favoured candidate is e^epsilon times as likely as another (Isik et al. 2023). */
export function closest(round, level, value, nonce, entropy) {
  const { candidates } = round;
  const size = round.favoured[level];
  const centre = pole(round, value, entropy);
  const heights = Array.from({ length: candidates / 2 }, (_, i) => {
    const u = unit(publicDirection(round, nonce, "privmean-closest", toLittleEndian(i, 2)));
    return exactSum(u.map((item, k) => item * centre[k]));
  });
  const near = closestSet(heights, size);
  const odds = oddsThreshold(round.menu[level], BigInt(size), BigInt(candidates - size));
  let choice;
  if (entropy.coin(odds)) {
    choice = near[Number(entropy.below(BigInt(size)))];
  } else {
    const rest = Number(entropy.below(BigInt(candidates - size)));
    const favoured = new Set(near);
    choice = Array.from({ length: candidates }, (_, j) => j).filter((j) => !favoured.has(j))[rest];
  }
  return toLittleEndian(choice, 2);
}
