// Opens a snapshot file of PyTorch's allocator: the hub reads it and keeps nothing of it.

import { message, upload } from "../api";
import { h, say, section } from "../dom";
import { dropZone } from "../drop";
import type { GpuSnapshot } from "../generated/hub";
import { snapshotView } from "./view";

export function snapshotOpener(): HTMLElement {
  const status = h("p", { class: "note", role: "status" });
  const shown = h("div");
  const zone = dropZone({ accept: ".pickle,.pkl", multiple: false, note: "A file of torch.cuda.memory._dump_snapshot. The hub reads it, runs nothing of it and does not keep it." }, (files) => files.forEach((file) => void open(file)));

  async function open(file: File): Promise<void> {
    say(status, `Reading ${file.name}…`);
    shown.replaceChildren();
    try {
      const report = await upload<GpuSnapshot>("gpu/snapshot", {}, file);
      say(status, `${file.name}${report.complete ? "" : ", as far as it could be read"}`);
      shown.replaceChildren(snapshotView(report));
    } catch (error) {
      say(status, `${file.name} was refused: ${message(error)}`);
    }
  }

  return section("Snapshot file", "", zone, status, shown);
}
