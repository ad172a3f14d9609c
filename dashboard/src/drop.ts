// A place to choose a file, or to drop one.

import { h } from "./dom";

export function dropZone(what: { accept: string; note: string; multiple: boolean }, take: (files: File[]) => void) {
  const input = h("input", { type: "file", class: "unseen", accept: what.accept, multiple: what.multiple, onchange: () => give(input.files) });
  const give = (files: FileList | null | undefined) => {
    const chosen = [...(files ?? [])];
    // The same file can be chosen again.
    input.value = "";
    take(what.multiple ? chosen : chosen.slice(0, 1));
  };
  const zone = h(
    "label",
    {
      class: "drop",
      ondragover: (event: DragEvent) => (event.preventDefault(), zone.classList.add("over")),
      ondragleave: () => zone.classList.remove("over"),
      ondrop: (event: DragEvent) => {
        event.preventDefault();
        zone.classList.remove("over");
        give(event.dataTransfer?.files);
      },
    },
    input,
    h("b", {}, "Choose a file or drop it here"),
    h("span", {}, what.note),
  );
  return zone;
}
