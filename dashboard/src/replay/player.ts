// The clock of a replay and its controls: play, speed, position.

import { h, mark, say, select } from "../dom";
import { position } from "../format";
import type { View } from "../view";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300];

export class Player {
  readonly element: HTMLElement;
  at = 0;
  playing = false;
  speed: number;
  private slider: HTMLInputElement;
  private button: HTMLButtonElement;
  private shown = h("output", { class: "when" });
  private frame = 0;
  private before = 0;
  private drawn = 0;

  /** `length` and positions are milliseconds of the recording; `moved` is called about 20 times in a second. */
  constructor(
    private view: View,
    private length: number,
    private moved: (at: number) => void,
    private write: (at: number) => string = (at) => `${position(at)} / ${position(length)}`,
  ) {
    this.speed = view.number("speed") ?? 1;
    this.at = Math.max(0, Math.min(length, view.number("at") ?? 0));
    this.button = h("button", { type: "button", class: "primary play", onclick: () => this.toggle() }, "Play");
    this.slider = h("input", { type: "range", min: 0, max: Math.max(1, Math.round(length)), step: "any", class: "slider", "aria-label": "Position" });
    this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
    const speeds = [...new Set([...SPEEDS, this.speed])].sort((one, other) => one - other);
    const speed = select("Speed", speeds.map((value) => ({ value: String(value), label: `${value}×` })), String(this.speed), (value) => {
      this.speed = Number(value);
      view.set({ speed: this.speed === 1 ? null : this.speed });
    });
    const back = h("button", { type: "button", title: "To the start", onclick: () => this.seek(0) }, "Start");
    const end = h("button", { type: "button", title: "To the end", onclick: () => this.seek(this.length) }, "End");
    this.element = h("div", { class: "toolbar player", role: "group", "aria-label": "Playback" }, back, this.button, end, speed.element, this.slider, this.shown);
    this.show();
  }

  toggle(): void {
    if (this.playing) this.pause();
    else this.play();
  }

  play(): void {
    if (this.at >= this.length) this.at = 0;
    this.playing = true;
    this.before = performance.now();
    const turn = (now: number) => {
      if (!this.playing) return;
      this.at = Math.min(this.length, this.at + (now - this.before) * this.speed);
      this.before = now;
      if (this.at >= this.length) this.pause();
      if (now - this.drawn > 48 || !this.playing) {
        this.drawn = now;
        this.show();
        this.moved(this.at);
      }
      if (this.playing) this.frame = requestAnimationFrame(turn);
    };
    this.frame = requestAnimationFrame(turn);
    this.show();
  }

  pause(): void {
    this.playing = false;
    cancelAnimationFrame(this.frame);
    this.view.set({ at: Math.round(this.at) });
    this.show();
  }

  seek(at: number): void {
    this.at = Math.max(0, Math.min(this.length, at));
    if (!this.playing) this.view.set({ at: Math.round(this.at) });
    this.show();
    this.moved(this.at);
  }

  destroy(): void {
    this.playing = false;
    cancelAnimationFrame(this.frame);
  }

  private show(): void {
    say(this.button, this.playing ? "Pause" : "Play");
    mark(this.button, "aria-pressed", String(this.playing));
    this.slider.value = String(this.at);
    mark(this.slider, "aria-valuetext", this.write(this.at));
    say(this.shown, this.write(this.at));
  }
}
