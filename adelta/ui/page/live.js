import { el, grid, problem } from "./dom.js";
import { commitColumns, commitRow } from "./history.js";

const MOST = 200;

export const live = {
  title: "Live",
  async show({ stream, signal, link, say }) {
    const state = el("p", { class: "soft" }, "Connecting…");
    const table = grid("Commits as they come, newest first", commitColumns, []);
    const body = table.querySelector("tbody");
    const source = stream();
    signal.addEventListener("abort", () => source.close());
    source.addEventListener("ready", (event) => {
      state.textContent = `Waiting for what comes after version ${event.data}.`;
    });
    source.addEventListener("commit", (event) => {
      const commit = JSON.parse(event.data);
      body.prepend(el("tr", { class: "new" }, commitRow(commit, link).map((cell) => el("td", null, cell))));
      while (body.rows.length > MOST) body.lastElementChild.remove();
      state.textContent = `The latest version is ${commit.version}.`;
      say(`Version ${commit.version}`);
    });
    source.addEventListener("failure", (event) => {
      source.close();
      state.replaceWith(problem(JSON.parse(event.data).message));
    });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) state.textContent = "The service has ended the stream.";
      else state.textContent = "The connection is lost; trying again…";
    });
    return [state, table];
  },
};
