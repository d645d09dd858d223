import { bars, chart } from "./chart.js";
import { bytes, cards, el, grid, number } from "./dom.js";

const WIDTH = 1000;

function lanes(found) {
  const span = Math.max(1, found.last - found.first + 1);
  const at = (version) => ((version - found.first) / span) * WIDTH;
  const shapes = [
    ...found.compactions.map((one) => ({
      x: at(one.first), y: 14, width: at(one.last + 1) - at(one.first), height: 12, kind: "third",
      text: `compaction of versions ${one.first} to ${one.last}, ${bytes(one.num_bytes)}`,
    })),
    ...found.checkpoints.filter((one) => one.version >= found.first).map((one) => ({
      x: at(one.version), y: 40, width: Math.max(3, WIDTH / span), height: 14, kind: "other",
      text: `${one.kind} of version ${one.version}, ${number(one.num_files)} files, ${bytes(one.num_bytes)}`,
    })),
  ];
  return chart({
    caption: `Compactions (above) and checkpoints (below), versions ${found.first} to ${found.last}`, shapes, height: 64,
  });
}

export const log = {
  title: "Log",
  async show({ ask, link }) {
    const found = await ask("log");
    const kinds = Object.entries(found.num_by_kind);
    const name = (bar) => (bar.first === bar.last ? `version ${bar.first}` : `versions ${bar.first} to ${bar.last}`);
    return [
      cards(kinds.map(([kind, count]) => [`${kind}, ${bytes(found.bytes_by_kind[kind])}`, number(count)])),
      bars("Bytes of commits, by version (logarithmic)", found.commits.map((bar) => ({
        amount: bar.num_bytes, label: bar.first, text: `${name(bar)}: ${number(bar.num_commits)} commits, ${bytes(bar.num_bytes)}`,
      })), { log: true }),
      lanes(found),
      el("h3", null, "Checkpoints"),
      found.checkpoints.length
        ? grid("Checkpoints", [{ name: "version", number: true }, "kind", { name: "files", number: true }, { name: "size", number: true }],
          found.checkpoints.toReversed().slice(0, 50).map((one) => [
            el("a", { href: link("overview", { version: one.version }) }, String(one.version)), one.kind, number(one.num_files), bytes(one.num_bytes)]))
        : el("p", { class: "soft" }, "There is none."),
    ];
  },
};
