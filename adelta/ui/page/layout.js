import { bars, chart } from "./chart.js";
import { cards, el, number, value } from "./dom.js";
import { fields, given, versionField } from "./fields.js";

const WIDTH = 1000;

function ranges(found) {
  const tall = Math.max(1, Math.min(8, 320 / Math.max(1, found.files.length)));
  const height = Math.max(40, tall * found.files.length + 10);
  return chart({
    caption: `Each bar is a file, from its least value to its greatest, in the order of the least (${number(found.files.length)} of ${number(found.num_files)})`,
    height,
    shapes: found.files.map((file, index) => ({
      x: file.start * (WIDTH - 4), y: 5 + index * tall, width: Math.max(3, (file.end - file.start) * (WIDTH - 4)), height: tall * 0.85,
      text: `${file.least} to ${file.greatest} in ${file.path}`,
    })),
  });
}

export const layout = {
  title: "Layout",
  async show({ query, ask, go }) {
    const answer = await ask("layout", given(query));
    const found = answer.layout;
    if (!found) return [el("p", { class: "soft" }, "The table has no column whose least and greatest values files state.")];
    const part = number(found.num_looked_at);
    return [
      fields([{ name: "column", label: "Column", kind: "wide", options: answer.columns, given: found.column }, versionField], query, go),
      cards([
        ["files a value may be in, on average", found.average_depth === null ? "–" : found.average_depth.toLocaleString("en-US", { maximumFractionDigits: 1 })],
        ["files", number(found.num_files)],
        ["files that state no range", number(found.num_unbounded)],
        ...(found.num_looked_at < found.num_files ? [["files were looked at, evenly taken", part]] : []),
      ]),
      found.least !== null && [
        el("p", null, value(found.column), ", ", value(found.type), ": from ", value(found.least), " to ", value(found.greatest)),
        bars("How many files may hold the values of each part of the range, from the least to the greatest", found.depths.map((depth, index) => ({
          amount: depth, text: `part ${index + 1} of ${found.depths.length}: ${number(Math.round(depth))} files`,
        }))),
        ranges(found),
      ],
    ].flat().filter(Boolean);
  },
};
