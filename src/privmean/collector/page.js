"use strict";
// Follows one round. All that is shown is public: it follows from private reports.
const at = id => document.getElementById(id);
const show = x => x === null || x === undefined ? "?" : Number(x.toPrecision(5)).toString();
const count = x => x.toLocaleString("en");
const SVG = at("chart").namespaceURI;
const TOP = 20;  // of many numbers, the largest are shown
let current = null, answer = null, last = "", history = [], asked = 0, turn = 0;

function get(path) {
  const token = sessionStorage.getItem("token");
  return fetch(path, { headers: token ? { Authorization: "Bearer " + token } : {} });
}
function table(head, body, names, rows) {
  at(head).replaceChildren(); at(body).replaceChildren();
  const top = at(head).insertRow();
  names.forEach(name => { const cell = document.createElement("th"); cell.textContent = name; top.append(cell); });
  rows.forEach(values => { const row = at(body).insertRow();
    values.forEach(value => { row.insertCell().textContent = value; }); });
}
function range(low, high) { return low === null || high === null ? "?" : show(low) + " to " + show(high); }
function shape(kind, attributes, text) {
  const made = document.createElementNS(SVG, kind);
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  if (text !== undefined) made.textContent = text;
  at("chart").append(made);
  return made;
}
function ticks(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(k => k * power).find(k => k >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}
function short(x) {
  const size = Math.abs(x);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return x.toExponential(1).replace("e+", "e");
  return x.toLocaleString("en", { maximumFractionDigits: 6 });
}
function frame(xs, ys, xName, yName, whole) {
  const chart = at("chart"), width = chart.clientWidth || 600, height = chart.clientHeight || 280;
  chart.replaceChildren();
  chart.setAttribute("viewBox", "0 0 " + width + " " + height);
  let [left, right] = [Math.min(...xs), Math.max(...xs)], [low, high] = [Math.min(...ys), Math.max(...ys)];
  if (left === right) { left -= left > 0 ? left : 1; right += right === left ? 1 : 0; }
  if (low === high) { low -= 1; high += 1; }
  const marks = ticks(low, high, 5), margin = 16 + 7.2 * Math.max(...marks.map(v => short(v).length));
  const x = v => margin + (width - margin - 12) * (v - left) / (right - left);
  const y = v => height - 44 - (height - 64) * (v - low) / (high - low);
  marks.forEach(v => {
    shape("line", { class: "grid", x1: margin, x2: width - 12, y1: y(v), y2: y(v) });
    shape("text", { x: margin - 8, y: y(v) + 4, "text-anchor": "end" }, short(v));
  });
  shape("line", { class: "axis", x1: margin, x2: width - 12, y1: height - 44, y2: height - 44 });
  ticks(left, right, Math.max(5, Math.floor(width / 110))).filter(v => !whole || Number.isInteger(v)).forEach(v => {
    shape("line", { class: "axis", x1: x(v), x2: x(v), y1: height - 44, y2: height - 39 });
    shape("text", { x: x(v), y: height - 25, "text-anchor": "middle" }, short(v));
  });
  shape("text", { x: width - 12, y: height - 6, "text-anchor": "end", class: "name" }, xName);
  shape("text", { x: 0, y: 12, class: "name" }, yName);
  return [x, y];
}
function band(kind, rows, x, y, low, high) {
  const known = rows.filter(row => low(row) !== null && high(row) !== null);
  if (known.length < 2) return;
  const corners = known.map(row => x(row.x) + "," + y(high(row)))
    .concat(known.map(row => x(row.x) + "," + y(low(row))).reverse());
  shape("polygon", { class: kind, points: corners.join(" ") });
}
function key(parts) {
  at("key").replaceChildren(...parts.map(([kind, words]) => {
    const item = document.createElement("span"), mark = document.createElement("i");
    mark.className = kind; item.append(mark, words); return item;
  }));
}
// a row: where it lies, its value, its radius, its interval
function rowOf(x, k, from) {
  return { x, value: from.value[k], radius: from.radii[k], lower: from.interval.lower[k], upper: from.interval.upper[k] };
}
function lines(rows, xName, whole) {
  const known = rows.filter(row => row.value !== null && row.radius !== null);
  if (known.length === 0) { at("chart").replaceChildren(); return; }
  // what the first few reports said fills no axis: it may leave the frame
  const late = whole ? known.filter(row => row.x >= known[known.length - 1].x / 20) : known;
  const ends = late.flatMap(row => [row.value - row.radius, row.value + row.radius]);
  const low = Math.min(...ends), high = Math.max(...ends), inside = v => v === null ? null : Math.min(Math.max(v, low), high);
  const [x, yOf] = frame(known.map(row => row.x), ends, xName, "estimate", whole), y = v => yOf(inside(v));
  band("band", known, x, y, row => row.value - row.radius, row => row.value + row.radius);
  band("inner", known, x, y, row => row.lower, row => row.upper);
  shape("polyline", { class: "line", id: "line", points: known.map(row => x(row.x) + "," + y(row.value)).join(" ") });
  if (known.length < 40) known.forEach(row => shape("circle", { class: "dot", cx: x(row.x), cy: y(row.value), r: 3 }));
}
function bars(rows) {
  const [x, y] = frame([0.5, rows.length + 0.5], rows.flatMap(row =>
    [row.value, row.lower, row.upper].filter(v => v !== null)).concat([0]), "place in the table", "estimate", true);
  rows.forEach((row, k) => {
    if (row.lower !== null) shape("line", { class: "whisker", x1: x(k + 1), x2: x(k + 1), y1: y(row.lower), y2: y(row.upper) });
    shape("circle", { class: "dot", cx: x(k + 1), cy: y(row.value), r: 4 });
  });
}
function largest(a) {
  const value = a.value.flat(), radii = a.radii.flat();
  return value.map((v, k) => ({ place: a.places ? a.places[k] : k, value: v, radius: radii[k],
    lower: a.interval.lower[k], upper: a.interval.upper[k] })).sort((p, q) => q.value - p.value).slice(0, TOP);
}
function draw() {
  const a = answer;
  if (!a) return;
  const single = a.value.length === 1 && typeof a.value[0] === "number", curve = a.points.length > 0;
  const level = Math.round(100 * a.interval.level) + " % interval";
  if (curve) {
    at("chart-title").textContent = "Estimate by design point";
    key([["line", "estimate"], ["inner", level], ["band", "radius"]]);
    lines(a.points.map((point, k) => rowOf(point, k, a)), "design point");
  } else if (single) {
    at("chart-title").textContent = "Estimate by reports";
    key([["line", "estimate"], ["inner", level], ["band", "radius"]]);
    const now = rowOf(a.reports, 0, a);
    lines(history.filter(p => p.reports < a.reports && p.value.length === 1)
      .map(p => rowOf(p.reports, 0, p)).concat(a.reports ? [now] : []), "reports counted", true);
  } else {
    at("chart-title").textContent = "The largest";
    key([["line", "estimate, and its " + level]]);
    bars(largest(a));
  }
}
function left(seconds) {
  const units = [["day", 86400], ["hour", 3600], ["minute", 60]];
  const [name, size] = units.find(unit => seconds >= unit[1]) || units[2];
  const number = Math.max(1, Math.floor(seconds / size));
  return number + " " + name + (number === 1 ? "" : "s") + " left";
}
function deadline(a) {
  if (a.state !== "open") return "closed";
  if (a.closes === null) return "none";
  const seconds = a.closes - Date.now() / 1000;
  return new Date(1000 * a.closes).toISOString().slice(0, 16).replace("T", " ") + " UTC, " + left(seconds);
}
function update(a) {
  answer = a;
  const single = a.value.length === 1 && typeof a.value[0] === "number";
  const size = a.numbers || a.value.flat().length;
  at("title").textContent = a.title || "Round " + a.round;
  at("estimate").textContent = single ? show(a.value[0]) : count(size) + " numbers";
  at("interval-line").hidden = !single;
  at("level").textContent = Math.round(100 * a.interval.level);
  at("interval").textContent = range(a.interval.lower[0], a.interval.upper[0]);
  at("radius").textContent = show(a.radius);
  at("meaning").textContent = a.target + "; the radius holds with probability " + (1 - a.beta);
  at("reports").textContent = count(a.reports);
  at("planned").textContent = "of " + count(a.persons) + " planned (" + Math.round(100 * a.reports / a.persons) + " %)";
  at("progress").value = Math.min(1, a.reports / a.persons);
  at("refused").textContent = count(Object.values(a.rejected).reduce((s, n) => s + n, 0));
  at("reasons").textContent = Object.entries(a.rejected).map(([word, n]) => word + " " + count(n)).join(", ");
  at("deadline").textContent = deadline(a);
  at("report").hidden = a.state !== "open";
  at("report").href = "client/#" + a.round;
  at("warning").textContent = a.warning || "";
  at("relation-box").hidden = !a.relation;
  at("relation").textContent = a.relation ? a.relation.words + "." : "";
  at("relation").className = a.relation && a.relation.found ? "found" : "";
  at("notes").replaceChildren(...a.notes.map(text => { const item = document.createElement("li"); item.textContent = text; return item; }));
  at("notes-box").hidden = a.notes.length === 0;
  const some = Math.ceil(a.reports / 100);
  at("influence").textContent = show(a.largest_influence);
  at("some").textContent = count(some);
  at("poisoning").textContent = a.largest_influence === null ? "?" : show(some * a.largest_influence);
  const whole = a.levels.reduce((s, l) => s + l.reports * l.weight, 0) || 1;
  table("levels-head", "levels", ["epsilon", "reports", "weight of all"].concat(single ? ["estimate alone"] : []),
    a.levels.map(l => [l.epsilon, count(l.reports), Math.round(100 * l.reports * l.weight / whole) + " %"]
      .concat(single ? [l.estimate ? show(l.estimate[0]) : "?"] : [])));
  at("numbers-box").hidden = single;
  if (!single) {
    const curve = a.points.length > 0;
    const rows = curve ? a.points.map((p, k) => ({ ...rowOf(p, k, a), place: p })) : largest(a);
    at("numbers-title").textContent = curve ? "Design points" : size > TOP ? "The " + TOP + " largest of " + count(size) : "Numbers";
    table("head", "body", [curve ? "point" : "number", "estimate", Math.round(100 * a.interval.level) + " % interval", "radius"],
      rows.map(row => [curve ? show(row.place) : row.place, show(row.value), range(row.lower, row.upper), show(row.radius)]));
  }
  draw();
}
async function follow() {
  const round = current, mine = turn, weights = at("weights").value, base = "rounds/" + encodeURIComponent(round) + "/";
  const reply = await get(base + "estimate?weights=" + weights);
  if (mine !== turn) return;
  at("door").hidden = reply.status !== 401;
  at("results").hidden = !reply.ok;
  if (!reply.ok) {
    last = "";
    at("warning").textContent = reply.status === 401 ? "" : reply.status === 410 ? "the round was deleted" : "the collector refuses (" + reply.status + ")";
    if (reply.status === 401) sessionStorage.removeItem("token");
    return;
  }
  const text = await reply.text();
  if (mine !== turn) return;
  if (text === last) {  // what is selected stays so
    at("deadline").textContent = deadline(answer); at("warning").textContent = answer.warning || "";
    return;
  }
  const found = JSON.parse(text);
  if (Date.now() > asked && (!answer || answer.reports !== found.reports || !history.length)) {
    const past = await get(base + "history");
    if (past.ok && mine === turn) { history = await past.json(); asked = Date.now() + 10000; }
  }
  if (mine === turn) { update(found); last = text; }
}
async function look() {
  const start = Date.now();
  try {
    if (current && !document.hidden && (at("door").hidden || sessionStorage.getItem("token"))) await follow();
  } catch (error) { at("warning").textContent = "the collector does not answer"; }
  setTimeout(look, Math.max(1000, 5 * (Date.now() - start)));
}
function choose() {
  turn++; current = at("rounds").value; answer = null; last = ""; history = []; asked = 0;
}
async function list() {
  const rounds = await (await fetch("rounds")).json(), known = new Set([...at("rounds").options].map(o => o.value));
  rounds.filter(r => !known.has(r.round)).forEach(r =>
    at("rounds").add(new Option((r.title || r.round) + " (" + r.mechanism + (r.state === "open" ? ")" : ", closed)"), r.round)));
  return rounds;
}
async function start() {
  try {
    const rounds = await list();
    at("rounds").addEventListener("change", choose);
    at("weights").addEventListener("change", () => { turn++; });
    at("door").addEventListener("submit", event => {
      event.preventDefault(); sessionStorage.setItem("token", at("token").value); at("token").value = "";
    });
    addEventListener("resize", draw);
    const wanted = location.hash.slice(1);  // anybody may have written it: only a round's name counts
    const round = rounds.find(r => r.round === wanted) || rounds.find(r => r.state === "open") || rounds[0];
    current = round ? round.round : null;
    if (current) at("rounds").value = current;
    setInterval(() => list().then(all => { if (!current && all.length) choose(); }).catch(() => {}), 10000);
    look();
  } catch (error) { setTimeout(start, 1000); }
}
start();
