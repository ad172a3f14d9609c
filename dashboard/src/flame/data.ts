// A flame graph as the hub and the command give it, and where its boxes lie.

import type { Flame, FlameFrame, FlameMeasure, FlameNode, Measure } from "../generated/hub";

export type { Flame as FlameData, FlameFrame, FlameNode, Measure };

/** The unit of the widths. */
export const UNITS: Record<FlameMeasure, string> = { live: "bytes", growth: "bytes", rate: "bytes/s", stalls: "ms", retained: "bytes" };

/** The tree with the position of each node: `left` and `value` are in the unit of the graph. */
export class Layout {
  readonly children: number[][];
  readonly left: Float64Array;
  readonly depth: Uint16Array;

  constructor(readonly data: Flame) {
    const { nodes } = data;
    this.children = nodes.map(() => []);
    this.left = new Float64Array(nodes.length);
    this.depth = new Uint16Array(nodes.length);
    for (let i = 1; i < nodes.length; i += 1) this.children[nodes[i].parent].push(i);
    // A parent comes before its children, so one pass is enough.
    for (let i = 0; i < nodes.length; i += 1) {
      let at = this.left[i];
      for (const child of this.children[i].sort((one, other) => nodes[other].value - nodes[one].value)) {
        this.left[child] = at;
        this.depth[child] = this.depth[i] + 1;
        at += nodes[child].value;
      }
    }
  }

  frame(node: number): FlameFrame {
    return this.data.frames[this.data.nodes[node].frame];
  }

  /** The nodes from the root down to this one. */
  path(node: number): number[] {
    const path = [node];
    while (path[0] !== 0) path.unshift(this.data.nodes[path[0]].parent);
    return path;
  }

  /** The node that stands where a node of an earlier graph stood, or its nearest caller that is still there. */
  find(earlier: Layout, node: number): number {
    let here = 0;
    for (const step of earlier.path(node).slice(1)) {
      const wanted = earlier.frame(step);
      const next = this.children[here].find((child) => {
        const frame = this.frame(child);
        return frame.function === wanted.function && frame.file === wanted.file && frame.line === wanted.line;
      });
      if (next === undefined) break;
      here = next;
    }
    return here;
  }

  /** Nodes whose function or file contains a text, and what they hold together. */
  search(text: string): { found: Set<number>; value: number } {
    const found = new Set<number>();
    const wanted = text.trim().toLowerCase();
    if (!wanted) return { found, value: 0 };
    const hit = this.data.frames.map((frame) => `${frame.function} ${frame.file}:${frame.line}`.toLowerCase().includes(wanted));
    let value = 0;
    const under = new Uint8Array(this.data.nodes.length);
    this.data.nodes.forEach((node, i) => {
      const own = i > 0 && hit[node.frame];
      if (own) found.add(i);
      // What is below one that was counted is a part of it.
      if (own && !under[node.parent]) value += node.value;
      under[i] = i > 0 && (own || under[node.parent]) ? 1 : 0;
    });
    return { found, value };
  }
}

/** The end of a path that tells files apart, as the command writes it. */
export function shortPath(path: string): string {
  const packages = path.match(/^.*\/(?:site|dist)-packages\/(.*)$/) ?? path.match(/^.*\/lib\/python3\.[^/]*\/(.*)$/);
  if (packages) return packages[1];
  const parts = path.split("/");
  return parts.length > 4 ? parts.slice(-3).join("/") : path;
}

export function where({ file, line }: { file: string; line: number }): string {
  return file ? `${shortPath(file)}${line ? `:${line}` : ""}` : "";
}
