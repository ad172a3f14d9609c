// Where the history of a hub is, and what that means for files.

import { get } from "./api";
import { h, say } from "./dom";
import type { Hub } from "./types";

/** Says that heap dumps and recordings are in the folder of one hub, where history is shared by several. */
export function localFiles(signal: AbortSignal): HTMLElement {
  const note = h("p", { class: "note", hidden: true });
  get<Hub>("hub", {}, signal)
    .then(({ store }) => {
      note.hidden = store.kind === "sqlite";
      say(note, store.not_kept.at(-1) ?? "");
    })
    .catch(() => {});
  return note;
}
