/** The mechanisms and their numbers on the wire. */
export const CODES = Object.freeze({
  "one-bit": 1,
  "ball-bit": 4,
  sketch: 5,
  hadamard: 6,
  piecewise: 8,
  subset: 10,
  hybrid: 12,
  closest: 13,
});

/** What version 0.2 had: reserved numbers, and what to use instead. */
export const RETIRED = Object.freeze({
  laplace: { code: 2, instead: "one-bit" },
  ball: { code: 3, instead: "ball-bit" },
  unary: { code: 7, instead: "subset" },
  "priv-unit": { code: 9, instead: "closest" },
  histogram: { code: 11, instead: "subset" },
});

export const SCALARS = ["one-bit", "piecewise", "hybrid"];
export const BALLS = ["ball-bit", "closest"];
