// Bars that the keyboard reaches: the arrow keys go from one to the next, which is then read out.

import { el, svg } from "./dom.js";

const WIDTH = 1000;

// `shapes` are { x, y, width, height, kind, text } in units of the drawing; `text` is what is read
// out of a shape. `marks` are texts beside them: { x, y, text, anchor }.
export function chart({ caption, shapes, marks = [], height = 220 }) {
  const readout = el("p", { class: "readout", role: "status" });
  const nodes = shapes.map((shape) =>
    svg("rect", {
      x: shape.x, y: shape.y, width: Math.max(shape.width, 1), height: Math.max(shape.height, 1),
      class: shape.kind ?? "bar",
    }, svg("title", null, shape.text)));
  let here = -1;
  const go = (index) => {
    if (!nodes.length) return;
    nodes[here]?.classList.remove("here");
    here = Math.max(0, Math.min(nodes.length - 1, index));
    nodes[here].classList.add("here");
    readout.replaceChildren(el("bdi", null, shapes[here].text));
  };
  const keys = { ArrowRight: () => go(here + 1), ArrowLeft: () => go(here - 1), Home: () => go(0), End: () => go(nodes.length - 1) };
  const drawing = svg("svg", {
    class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, tabindex: "0", role: "img",
    "aria-label": `${caption}. Arrow keys go through it.`,
    onkeydown: (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    },
    onclick: (event) => {
      const index = nodes.indexOf(event.target.closest?.("rect"));
      if (index >= 0) go(index);
    },
  }, nodes, marks.map((mark) => svg("text", { x: mark.x, y: mark.y, "text-anchor": mark.anchor ?? "start" }, mark.text)));
  return el("figure", null, el("figcaption", null, caption), drawing, readout);
}

// Bars beside each other: { amount, text, kind, label }.
export function bars(caption, entries, { height = 220, log = false } = {}) {
  const scale = (amount) => (log ? Math.log10(1 + amount) : amount);
  const most = Math.max(1e-9, ...entries.map((entry) => scale(entry.amount)));
  const step = WIDTH / Math.max(8, entries.length);
  const floor = height - 20;
  const every = Math.ceil(entries.length / 14);
  return chart({
    caption, height,
    shapes: entries.map((entry, index) => {
      const tall = (scale(entry.amount) / most) * (floor - 10);
      return { x: index * step + step * 0.05, y: floor - tall, width: step * 0.9, height: tall, kind: entry.kind, text: entry.text };
    }),
    marks: entries.flatMap((entry, index) =>
      entry.label !== undefined && index % every === 0
        ? [{ x: index * step + step / 2, y: height - 6, text: String(entry.label), anchor: "middle" }] : []),
  });
}
