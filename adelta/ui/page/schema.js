import { el, grid, number, time, value } from "./dom.js";

export const schema = {
  title: "Schema",
  async show({ query, ask, link }) {
    const found = await ask("schema", { before: query.get("before") });
    const rows = found.entries.map((entry) => [
      el("a", { href: link("overview", { version: entry.version }) }, String(entry.version)), time(entry.timestamp),
      entry.operation === null ? "–" : value(entry.operation),
      entry.changes.length ? el("ul", null, entry.changes.map((text) => el("li", null, value(text)))) : "nothing",
    ]);
    return [
      el("p", null, `What the commits of versions ${found.first} to ${found.last} changed of columns, properties and protocol.`),
      found.num_unread > 0 && el("p", { class: "soft" }, `${number(found.num_unread)} commits are too long to be looked into.`),
      rows.length ? grid("Changes of the schema, newest first", [{ name: "version", number: true }, "time", "operation", "what changed"], rows)
        : el("p", { class: "soft" }, "Nothing."),
      found.next !== null && el("p", null, el("a", { href: link("schema", { before: found.next }) }, "Earlier commits")),
    ].filter(Boolean);
  },
};
