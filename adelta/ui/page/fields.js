import { el } from "./dom.js";

// A form whose fields go into the address: { name, label, kind, options }.
export function fields(entries, query, go, action = "Show") {
  const inputs = entries.map((entry) => {
    const shared = { name: entry.name, class: entry.kind ?? "short" };
    const input = entry.options
      ? el("select", shared, entry.options.map((option) => el("option", { value: option }, option)))
      : el("input", { ...shared, autocomplete: "off", spellcheck: "false", placeholder: entry.hint });
    const given = query.get(entry.name) ?? entry.given;
    if (given !== undefined && given !== null) input.value = given;
    return input;
  });
  const asked = () => Object.fromEntries(inputs.map((input) => [input.name, input.value]));
  return el("form", { onsubmit: (event) => { event.preventDefault(); go(asked()); } },
    inputs.map((input, index) => el("label", null, entries[index].label, input)),
    el("button", { type: "submit" }, action));
}

export const versionField = { name: "version", label: "Version (the latest, where empty)" };

export const given = (query) => Object.fromEntries(query.entries());
