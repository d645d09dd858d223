// The page: which table and view are shown stands in the address, behind the #.

import { el, problem } from "./dom.js";
import { views } from "./views.js";

const main = document.getElementById("main");
const status = document.getElementById("status");
const nav = document.getElementById("nav");
const tables = document.getElementById("table");
const names = Object.keys(views);
let leave = new AbortController();

// ------------------------------------------------------------------------------------ the service

class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

async function ask(path, signal, options = {}) {
  const response = await fetch(path, { signal, ...options });
  if (response.status === 204) return null;
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, body.error?.message ?? response.statusText);
  return body;
}

const signIn = (token) =>
  ask("/api/session", undefined, { method: "POST", headers: { Authorization: `Bearer ${token}` } });

// The token of the address goes to the service once, and out of the address.
async function takeToken() {
  const given = /^#token=(.+)$/.exec(location.hash);
  if (!given) return;
  history.replaceState(null, "", location.pathname);
  await signIn(decodeURIComponent(given[1]));
}

function askForToken(message) {
  const field = el("input", { type: "password", name: "token", autocomplete: "off", class: "wide", required: true });
  main.replaceChildren(
    el("h2", null, "Token"),
    problem(message),
    el("form", {
      onsubmit: (event) => {
        event.preventDefault();
        signIn(field.value).then(begin).catch((error) => askForToken(error.message));
      },
    }, el("label", null, "The token that `adelta ui` printed", field), el("button", { type: "submit" }, "Go on")));
  field.focus();
}

// --------------------------------------------------------------------------------------- the place

// `#/0/history?before=5` is the history of the first table before version 5.
function place() {
  const found = /^#\/(\d+)\/(\w+)(?:\?(.*))?$/.exec(location.hash);
  const view = found && views[found[2]] ? found[2] : names[0];
  return { table: found ? Number(found[1]) : 0, view, query: new URLSearchParams(found?.[3] ?? "") };
}

function address(table, view, query = {}) {
  const given = Object.entries(query).filter(([, text]) => text !== null && text !== undefined && text !== "");
  const asked = new URLSearchParams(given).toString();
  return `#/${table}/${view}${asked ? `?${asked}` : ""}`;
}

async function show() {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  const { table, view, query } = place();
  tables.value = String(table);
  nav.replaceChildren(...names.map((name, index) =>
    el("li", null, el("a", {
      href: address(table, name), "aria-current": name === view ? "page" : null, "aria-keyshortcuts": String(index + 1),
    }, views[name].title))));
  document.title = `${views[view].title} · adelta`;
  const body = el("div", null, el("p", { class: "soft" }, "Loading…"));
  main.replaceChildren(el("h2", null, views[view].title), body);
  const context = {
    query, signal,
    ask: (name, asked = {}) =>
      ask(`/api/tables/${table}/${name}?${new URLSearchParams(Object.entries(asked).filter(([, text]) => text))}`, signal),
    stream: () => new EventSource(`/api/tables/${table}/tail`),
    link: (name, asked) => address(table, name, asked),
    go: (asked) => { location.hash = address(table, view, asked); },
    say: (text) => { status.textContent = text; },
    // Put in what comes later, or why it does not.
    later: (promise, make, node = el("div", null, el("p", { class: "soft" }, "Counting…"))) => {
      promise.then((found) => node.replaceChildren(...[make(found)].flat())).catch((error) => {
        if (!signal.aborted) node.replaceChildren(problem(error.message));
      });
      return node;
    },
  };
  try {
    const nodes = await views[view].show(context);
    if (!signal.aborted) {
      body.replaceChildren(...[nodes].flat(2));
      status.textContent = `${views[view].title} is shown`;
    }
  } catch (error) {
    if (signal.aborted) return;
    if (error.code === 401) askForToken(error.message);
    else body.replaceChildren(problem(error.message));
  }
}

// ------------------------------------------------------------------------------------ keys, colours

const themes = ["auto", "light", "dark"];
const button = document.getElementById("theme");

function paint(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.textContent = `Theme: ${theme}`;
}

function nextTheme() {
  const theme = themes[(themes.indexOf(localStorage.getItem("theme") ?? "auto") + 1) % themes.length];
  localStorage.setItem("theme", theme);
  paint(theme);
}

function showKeys() {
  const line = (key, text) => [el("dt", null, el("kbd", null, key)), el("dd", null, text)];
  const dialog = el("dialog", { "aria-label": "Keys", onclose: () => dialog.remove() },
    el("h2", null, "Keys"),
    el("dl", { class: "facts" },
      names.map((name, index) => line(String(index + 1), views[name].title)),
      line("t", "light, dark, or as the system says"),
      line("/", "to the first field"),
      line("← →", "through a drawing that has the focus"),
      line("?", "this list")),
    el("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); dialog.close(); } },
      el("button", { type: "submit" }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, select, textarea")) return;
  const view = names[Number(event.key) - 1];
  if (/^[1-9]$/.test(event.key) && view) location.hash = address(place().table, view);
  else if (event.key === "t") nextTheme();
  else if (event.key === "?") showKeys();
  else if (event.key === "/") {
    const field = main.querySelector("input, select");
    if (!field) return;
    event.preventDefault();
    field.focus();
  }
});

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("help").addEventListener("click", showKeys);
button.addEventListener("click", nextTheme);
tables.addEventListener("change", () => { location.hash = address(tables.value, place().view); });
addEventListener("hashchange", () => {
  if (/^#token=/.test(location.hash)) begin();
  else show();
});

async function begin() {
  paint(localStorage.getItem("theme") ?? "auto");
  try {
    await takeToken();
    const found = await ask("/api/tables");
    tables.replaceChildren(...found.tables.map((uri, index) => el("option", { value: String(index) }, uri)));
    document.getElementById("tables").hidden = found.tables.length < 2;
  } catch (error) {
    if (error.code === 401 || error.code === 429) askForToken(error.message);
    else main.replaceChildren(problem(error.message));
    return;
  }
  await show();
}

begin();
