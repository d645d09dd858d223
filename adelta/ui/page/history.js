import { bytes, el, facts, grid, number, pairs, time, value } from "./dom.js";

const files = (found) => (found === null ? "–" : `${number(found.num_files)} (${bytes(found.num_bytes)})`);

const effect = (commit) => [
  ...commit.changed.map((text) => el("span", { class: "tag" }, value(text))),
  commit.num_vectors > 0 && el("span", { class: "tag" }, `${number(commit.num_vectors)} files with deletion vectors`),
  commit.num_change_files > 0 && el("span", { class: "tag" }, `${number(commit.num_change_files)} files of row changes`),
];

function details(commit) {
  const part = (name, entries) => (entries.length ? [el("h3", null, name), pairs(entries)] : []);
  return el("details", null, el("summary", null, commit.operation === null ? el("span", { class: "null" }, "not said") : value(commit.operation)),
    facts([["by", commit.user === null ? "–" : value(commit.user)], ["with", commit.engine === null ? "–" : value(commit.engine)],
      ["the commit has", bytes(commit.num_bytes)]]),
    part("How", commit.parameters), part("What it says that it did", commit.metrics), part("Provenance", commit.more));
}

export const commitColumns = [{ name: "version", number: true }, "time", "operation", { name: "files added", number: true },
  { name: "files removed", number: true }, "what else"];

export const commitRow = (commit, link) => [
  el("a", { href: link("overview", { version: commit.version }) }, String(commit.version)),
  time(commit.timestamp), details(commit), files(commit.added), files(commit.removed), effect(commit)];

export const history = {
  title: "History",
  async show({ query, ask, link }) {
    const found = await ask("history", { before: query.get("before") });
    return [
      grid("Commits, newest first", commitColumns, found.commits.map((commit) => commitRow(commit, link))),
      el("p", null,
        query.get("before") && el("a", { href: link("history") }, "The latest"), " ",
        found.next !== null && el("a", { href: link("history", { before: found.next }) }, "Earlier commits")),
    ];
  },
};
