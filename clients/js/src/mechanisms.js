/** The mechanisms and their numbers on the wire. */
export const CODES = Object.freeze({
  "one-bit": 1,
  laplace: 2,
  ball: 3,
  "ball-bit": 4,
  sketch: 5,
  hadamard: 6,
  unary: 7,
  piecewise: 8,
  "priv-unit": 9,
  subset: 10,
  histogram: 11,
  hybrid: 12,
  closest: 13,
});

export const SCALARS = ["one-bit", "laplace", "piecewise", "hybrid"];
export const BALLS = ["ball", "ball-bit", "priv-unit", "closest"];
