import { bars } from "./chart.js";
import { bytes, cards, el, facts, grid, number, pairs, percent, time, value } from "./dom.js";

const list = (texts) => (texts.length ? texts.map((text) => el("span", { class: "tag" }, value(text))) : "–");

export const columnTable = (columns) =>
  grid("Columns", ["column", "type", "null", "role", "comment"], columns.map((column) => [
    value(column.name), value(column.type), column.nullable ? "" : "not null",
    column.partition ? "partition" : "", column.comment === null ? "" : value(column.comment)]));

function fileCards(found) {
  const largest = found.sizes.findLastIndex((size) => size.num_files) + 1;
  const first = Math.max(0, found.sizes.findIndex((size) => size.num_files));
  const shown = found.sizes.slice(first, largest);
  return [
    cards([
      ["files", number(found.num_files)],
      ["in all", bytes(found.num_bytes)],
      ["the file in the middle", bytes(found.median_bytes)],
      ["of files have a deletion vector", percent(found.num_vectors, found.num_files)],
      ["rows deleted by vectors", number(found.num_deleted)],
    ]),
    bars("Files by size", shown.map((size) => ({
      amount: size.num_files, label: bytes(size.least),
      text: `${number(size.num_files)} files of ${bytes(size.least)} or more`,
    })), { height: 160 }),
  ];
}

const rowCards = (found) => cards([
  ["rows", number(found.num_rows)],
  ["of all rows written are deleted by vectors", percent(found.num_deleted, found.num_rows + found.num_deleted)],
  ...(found.num_unknown ? [["files do not say how many rows they have", number(found.num_unknown)]] : []),
]);

export const overview = {
  title: "Overview",
  async show({ query, ask, later, link, go }) {
    const asked = { version: query.get("version") };
    const files = later(ask("sizes", asked), fileCards);
    const rows = later(ask("count", asked), rowCards);
    const found = await ask("overview", asked);
    const version = el("input", { name: "version", inputmode: "numeric", class: "short", value: asked.version ?? "" });
    return [
      el("form", { onsubmit: (event) => { event.preventDefault(); go({ version: version.value }); } },
        el("label", null, "Version (the latest, where empty)", version), el("button", { type: "submit" }, "Show")),
      found.may_be_stale && el("p", { class: "error" }, "There may be later versions, which only the table's commit owner knows of."),
      facts([
        ["location", value(found.uri)],
        ["version", el("a", { href: link("history", { before: found.version + 1 }) }, number(found.version))],
        ["committed", time(found.timestamp)],
        ["created", time(found.created)],
        ["name", found.name === null ? "–" : value(found.name)],
        ["description", found.description === null ? "–" : value(found.description)],
        ["id", value(found.id)],
        ["partitioned by", list(found.partition_columns)],
        ["clustered by", list(found.clustering_columns)],
        ["protocol", `reader ${found.reader_version}, writer ${found.writer_version}`],
        ["reader features", list(found.reader_features)],
        ["writer features", list(found.writer_features)],
      ]),
      el("h3", null, "Files"), files, rows,
      el("h3", null, `Columns (${number(found.num_columns)})`), columnTable(found.columns),
      el("h3", null, "Properties"), found.properties.length ? pairs(found.properties) : el("p", { class: "soft" }, "None are set."),
      found.domains.length > 0 && [el("h3", null, "Domains"), pairs(found.domains)],
    ].flat().filter(Boolean);
  },
};
