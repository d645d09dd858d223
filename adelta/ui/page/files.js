import { bars } from "./chart.js";
import { bytes, cards, el, grid, number, percent, value } from "./dom.js";
import { fields, given, versionField } from "./fields.js";

const name = (columns, values) => columns.map((column, index) => `${column}=${values[index] ?? "null"}`).join(", ");

function partitionNodes(found) {
  const { columns, partitions } = found;
  if (!columns.length) return [el("p", { class: "soft" }, "The table has no partitions.")];
  const numbers = ["files", "size", "with deletion vectors"].map((text) => ({ name: text, number: true }));
  const more = found.num_partitions > partitions.length;
  return [
    el("p", null, `${number(found.num_partitions)} partitions`, more && `; the ${number(partitions.length)} largest are shown`, "."),
    bars("Bytes by partition, largest first", partitions.map((one) => ({
      amount: one.num_bytes, text: `${name(columns, one.values)}: ${number(one.num_files)} files, ${bytes(one.num_bytes)}`,
    }))),
    grid("Partitions, largest first", [...columns.map((text) => ({ name: value(text) })), ...numbers], partitions.map((one) => [
      ...one.values.map(value), number(one.num_files), bytes(one.num_bytes), percent(one.num_vectors, one.num_files)])),
  ];
}

export const files = {
  title: "Files",
  async show({ query, ask, later, go }) {
    const found = await ask("partitions", { version: query.get("version") });
    const where = query.get("where");
    const kept = where && later(ask("skipped", given(query)), (answer) => cards([
      [`of ${number(answer.num_files)} files may have such rows`, number(answer.num_kept)],
      [`of ${bytes(answer.num_bytes)} would be read`, bytes(answer.bytes_kept)],
      ["are skipped", percent(answer.num_files - answer.num_kept, answer.num_files)],
    ]));
    return [
      fields([versionField, { name: "where", label: "Which files does a predicate read?", kind: "wide", hint: "km > 5 AND city = 'Bern'" }],
        query, go),
      kept,
      el("h3", null, "By partition"), partitionNodes(found),
    ].flat().filter(Boolean);
  },
};
