import { el, grid, number, value } from "./dom.js";
import { fields, given, versionField } from "./fields.js";

const NUMBER = /^(u?int|float|double|decimal)/;

function shownRows(caption, found) {
  const heads = found.columns.map((column) => ({ name: value(column.name), number: NUMBER.test(column.type) }));
  return [
    found.stopped && el("p", { class: "soft" }, found.stopped),
    found.num_columns > found.columns.length && el("p", { class: "soft" },
      `${number(found.columns.length)} of ${number(found.num_columns)} columns are shown; name others.`),
    found.rows.length ? grid(caption, heads, found.rows.map((row) => row.map(value))) : el("p", { class: "soft" }, "There are no such rows."),
  ].filter(Boolean);
}

const columnsField = { name: "columns", label: "Columns, with commas between", kind: "wide" };

export const rows = {
  title: "Rows",
  async show({ query, ask, go, later }) {
    return [
      fields([versionField, { name: "where", label: "Rows for which this is true", kind: "wide", hint: "km > 5 AND city = 'Bern'" },
        columnsField, { name: "limit", label: "Rows (100, at most 500)" }], query, go),
      later(ask("rows", given(query)), (found) => [el("p", null, `Version ${found.version}`), ...shownRows("Rows", found)]),
    ];
  },
};

export const changes = {
  title: "Changes",
  async show({ query, ask, go, later }) {
    return [
      fields([{ name: "since", label: "From version" }, { name: "until", label: "To version" }, columnsField,
        { name: "limit", label: "Rows (100, at most 500)" }], query, go),
      later(ask("changes", given(query)), (found) => [
        el("p", null, `What was changed from version ${found.since} on`), ...shownRows("Changed rows", found)]),
    ];
  },
};
