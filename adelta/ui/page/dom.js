// Elements of the page. Whatever comes from a table is put in as text, never as markup: the page's
// policy (Trusted Types) refuses every other way.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const el = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);

export const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// A text out of a table: apart from the direction of what stands around it.
export const value = (text) =>
  text === null || text === undefined
    ? el("span", { class: "null" }, "null")
    : el("bdi", { dir: "auto" }, text);

export const number = (count) =>
  count === null || count === undefined ? "–" : Number(count).toLocaleString("en-US");

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let left = Number(count);
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return unit ? `${left.toFixed(1)} ${units[unit]}` : `${left} B`;
}

export const percent = (part, whole) =>
  whole ? `${((100 * part) / whole).toFixed(part && part < whole / 100 ? 2 : 1)} %` : "–";

export const time = (text) =>
  text ? el("time", { datetime: text }, text.replace("T", " ").replace("Z", " UTC")) : "–";

// A table: `columns` are names, or { name, number: true }; cells are texts or nodes.
export function grid(caption, columns, rows) {
  const heads = columns.map((column) => (typeof column === "string" ? { name: column } : column));
  const kind = (head) => (head.number ? "number" : null);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", null,
      el("caption", { class: "skip" }, caption),
      el("thead", null, el("tr", null, heads.map((head) =>
        el("th", { scope: "col", class: kind(head) }, typeof head.name === "string" ? head.name : head.name)))),
      el("tbody", null, rows.map((row) =>
        el("tr", null, row.map((cell, index) => el("td", { class: kind(heads[index]) }, cell)))))));
}

export const facts = (entries) =>
  el("dl", { class: "facts" }, entries.map(([name, content]) => [el("dt", null, name), el("dd", null, content)]));

export const pairs = (entries) =>
  facts(entries.map(([name, text]) => [el("bdi", null, name), value(text)]));

export const cards = (entries) =>
  el("ul", { class: "cards" }, entries.map(([name, content]) => el("li", null, el("strong", null, content), name)));

export const problem = (message) => el("p", { class: "error", role: "alert" }, el("bdi", null, message));
