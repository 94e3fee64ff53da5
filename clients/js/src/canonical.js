/** The canonical text of a round, byte for byte as the server writes it. */

/** A double as its shortest digits, with a point or an exponent: 0.0, 1e-05, 1e+16. */
export function floatText(x) {
  const [digits, power] = x.toExponential().split("e");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const size = Math.abs(exponent).toString().padStart(2, "0");
    return `${digits}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  const sign = x < 0 ? "-" : "";
  const figures = digits.replace("-", "").replace(".", "");
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${figures}`;
  const whole = figures.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${figures.slice(exponent + 1) || "0"}`;
}

const SHORT = { '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b" };

/** A text in ASCII; everything beyond is escaped by its UTF-16 units. */
export function stringText(text) {
  const escaped = text.replace(
    /["\\]|[^ -~]/g, // no flag u: surrogates one by one
    (sign) => SHORT[sign] ?? `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `"${escaped}"`;
}

/** Ready-made texts of the fields, by rising names. */
export function objectText(fields) {
  const names = Object.keys(fields).sort();
  return `{${names.map((name) => `"${name}":${fields[name]}`).join(",")}}`;
}

export const listText = (items) => `[${items.join(",")}]`;
