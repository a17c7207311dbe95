/** The small pictures of steps as images that a canvas can draw; each is made once per theme. */

import type { TraceInfo } from '../lib/api';
import { colourTable, INFINITE, N_COLOURS } from '../matrix/colours';
import { imageOf } from './brush';
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
    const { packed } = colourTable(this.trace.steps[step]!.scale, dark);
    const bytes = atob(picture.data);
    const image = imageOf(picture.columns, picture.rows, (x, y) => {
      const byte = bytes.charCodeAt(y * picture.columns + x);
      return packed[byte > LAST ? INFINITE : Math.round((byte / LAST) * (N_COLOURS - 1))]!;
    });
    this.made.set(key, image);
    return image;
  }
}
