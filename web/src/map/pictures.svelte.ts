/** The small pictures of steps as images that a canvas can draw; each is made once per theme. */

import type { TraceInfo } from '../lib/api';
import { colourTable, INFINITE, N_COLOURS } from '../matrix/colours';
import { Pictures } from '../tree/pictures.svelte';

const LAST = 254;

export class StepImages {
  private readonly pictures: Pictures;
  private readonly made = new Map<string, HTMLCanvasElement>();

  constructor(private readonly trace: TraceInfo) {
    this.pictures = new Pictures(trace.id);
  }

  /** Changes whenever there are more pictures. */
  get arrived(): number {
    return this.pictures.arrived;
  }

  /** Asks for what it does not have; `arrived` says when to ask again. */
  get(step: number, dark: boolean): HTMLCanvasElement | null {
    const picture = this.pictures.get(step);
    if (picture === undefined) {
      this.pictures.want([step]);
      return null;
    }
    if (picture.rows === 0) return null;
    const key = `${step} ${dark}`;
    const known = this.made.get(key);
    if (known !== undefined) return known;
    const image = document.createElement('canvas');
    [image.width, image.height] = [picture.columns, picture.rows];
    const { packed } = colourTable(this.trace.steps[step]!.scale, dark);
    const pixels = new ImageData(picture.columns, picture.rows);
    const words = new Uint32Array(pixels.data.buffer);
    const bytes = atob(picture.data);
    for (let at = 0; at < words.length; at++) {
      const byte = bytes.charCodeAt(at);
      words[at] = packed[byte > LAST ? INFINITE : Math.round((byte / LAST) * (N_COLOURS - 1))]!;
    }
    image.getContext('2d')?.putImageData(pixels, 0, 0);
    this.made.set(key, image);
    return image;
  }
}
