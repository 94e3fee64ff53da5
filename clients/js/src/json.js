/** JSON as it is read: one text has one value, whoever reads it. */

const SIGN = /"(?:[^"\\]|\\.)*"|[{}[\],:]/gs;

/** The value of a JSON text; throws for what is no JSON, and for a name twice in one object. */
export function parsed(text) {
  const value = JSON.parse(text);
  const open = []; // the names so far of each object that is open; null for a list
  let last = "";
  for (const [sign] of text.matchAll(SIGN)) {
    if (sign === "{") open.push(new Set());
    else if (sign === "[") open.push(null);
    else if (sign === "}" || sign === "]") open.pop();
    else if (sign === ":") {
      const names = open.at(-1);
      const name = JSON.parse(last);
      if (names.has(name)) throw new SyntaxError("a name occurs twice in one object");
      names.add(name);
    }
    last = sign;
  }
  return value;
}
