// Replay: a recorded trace or a result of `neurogc bench`, played back.

import { aborted, file, get, message, part, remove, upload } from "../api";
import type { Context, Page } from "../context";
import { h, left, say, table } from "../dom";
import { dropZone } from "../drop";
import { download } from "../export";
import { bytes, moment } from "../format";
import { localFiles } from "../history";
import { playBench } from "../replay/bench";
import { playTrace } from "../replay/trace";
import type { Bench, Recording, Trace } from "../types";
import { link } from "../view";

function mount(root: HTMLElement, context: Context): () => void {
  const { view, announce } = context;
  const id = view.get("rec");
  return id ? stage(root, context, id) : shelf(root, context, announce);
}

/** One recording, played. */
function stage(root: HTMLElement, context: Context, id: string): () => void {
  const stop = new AbortController();
  let leave = () => {};
  const waiting = h("p", { class: "nothing" }, "Loading the recording…");
  const heading = h("h1", {}, "Replay");
  root.append(h("div", { class: "title" }, heading, h("span", { class: "spring" }), h("a", { href: link("replay") }, "All recordings")), waiting);
  get<Trace | Bench>(`recordings/${part(id)}`, {}, stop.signal)
    .then((recording) => {
      waiting.remove();
      say(heading, recording.name);
      document.title = `${recording.name} – NeuroGC`;
      leave = recording.kind === "trace" ? playTrace(root, context, recording) : playBench(root, context, recording);
    })
    .catch((error) => {
      if (!aborted(error)) say(waiting, `This recording could not be loaded: ${message(error)}`);
    });
  return () => {
    stop.abort();
    leave();
  };
}

/** All recordings, and a place to drop another one. */
function shelf(root: HTMLElement, { live }: Context, announce: Context["announce"]): () => void {
  const stop = new AbortController();
  const shown = table("Recordings", [left("Name"), left("Kind"), "Size", "Added", ""], "recordings");
  const none = h("p", { class: "note" }, "Nothing here yet.");
  const note = "A trace of neurogc run --trace FILE (.ngct), or run.json of neurogc bench or demo";
  const drop = dropZone({ accept: ".ngct,.json", multiple: true, note }, (files) => void take(files));
  const status = h("p", { class: "note", role: "status" });
  root.append(h("div", { class: "title" }, h("h1", {}, "Replay")), drop, localFiles(stop.signal), status, h("div", { class: "table-frame" }, shown.element, none));

  async function take(files: File[]): Promise<void> {
    for (const each of files) {
      say(status, `Loading ${each.name}…`);
      try {
        const kept = await upload<Recording>("recordings", { name: each.name }, each);
        say(status, "");
        announce(`${kept.name} is there`, "good");
        if (files.length === 1) {
          location.hash = link("replay", { rec: kept.id });
          return;
        }
      } catch (error) {
        say(status, `${each.name} was refused: ${message(error)}`);
      }
    }
    await list();
  }

  async function list(): Promise<void> {
    try {
      const { recordings } = await get<{ recordings: Recording[] }>("recordings", {}, stop.signal);
      none.hidden = recordings.length > 0;
      shown.element.hidden = !none.hidden;
      shown.set(recordings.map(row));
    } catch (error) {
      if (!aborted(error)) say(status, `The recordings could not be listed: ${message(error)}`);
    }
  }

  function row(recording: Recording): HTMLTableRowElement {
    const drop = async () => {
      await remove(`recordings/${part(recording.id)}`).catch((error) => say(status, message(error)));
      announce(`${recording.name} is deleted`);
      await list();
    };
    const save = async () => download(await file(`recordings/${part(recording.id)}/file`), recording.name);
    return h(
      "tr",
      { "data-recording": recording.id },
      h("th", { scope: "row", class: "text" }, h("a", { href: link("replay", { rec: recording.id }) }, recording.name)),
      h("td", { class: "text" }, recording.kind === "trace" ? "trace" : "bench result"),
      h("td", {}, bytes(recording.bytes)),
      h("td", {}, recording.added_ms ? moment(recording.added_ms) : "–"),
      h(
        "td",
        {},
        h("button", { type: "button", onclick: () => void save(), "aria-label": `Download ${recording.name}` }, "Download"),
        recording.uploaded ? h("button", { type: "button", onclick: () => void drop(), "aria-label": `Delete ${recording.name}` }, "Delete") : null,
      ),
    );
  }

  const off = live.onReturn(() => void list());
  void list();
  return () => {
    stop.abort();
    off();
  };
}

export const replay: Page = { name: "replay", title: "Replay", mount };
