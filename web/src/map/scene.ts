/**
 * The picture of a model, ready to be drawn and pointed at: its message with the bytes unpacked.
 *
 * All boxes exist at every zoom. `isOpen` says from which size on what is inside a box can be read:
 * that is the zoom's meaning, from the model to a block to a part to a step.
 */

import type { MapBoxInfo, MapColumnsInfo, MapInfo } from '../lib/api';
import type { Rect } from './camera';

export type BoxKind = MapBoxInfo['kind'];

export interface Box extends Rect {
  at: number;
  kind: BoxKind;
  name: string;
  parent: Box | null;
  inside: Box[];
  /** Where a click leads. */
  step: number | null;
  tower: number | null;
  layer: number | null;
  nMore: number;
}

export interface Heat {
  box: Box;
  rows: number;
  columns: number;
  /** Features that a column stands for. */
  group: number;
  limit: number;
  bytes: Uint8Array;
}

/** One weight of an attention, between two tokens. */
export interface Arc {
  query: number;
  key: number;
  weight: number;
  /** How many weights of the same query are larger. */
  rank: number;
}

export interface Attention {
  box: Box;
  /** The step with the weights of each head. */
  weights: number | null;
  nHeads: number;
  /** The tower whose tokens are looked at. */
  keys: number;
  rows: number;
  columns: number;
  /** Largest first. */
  arcs: Arc[];
}

export interface Scene {
  width: number;
  height: number;
  boxes: Box[];
  roots: Box[];
  arrows: { kind: 'flow' | 'residual' | 'memory'; source: Box; target: Box; points: Point[] }[];
  columns: MapColumnsInfo[];
  heat: Heat[];
  attention: Attention[];
}

export type Point = [number, number];

/** Weights below this are not drawn. */
const LEAST_WEIGHT = 0.02;
/** A step's box can be read from this height on, in pixels of the screen. */
export const READABLE = 15;

export function sceneOf(info: MapInfo): Scene {
  const boxes: Box[] = [];
  for (const [at, one] of info.boxes.entries()) {
    const { kind, name, step, tower, layer, x, y, width, height } = one;
    const parent = one.parent === null ? null : boxes[one.parent]!;
    const box: Box = {
      ...{ at, kind, name, parent, inside: [], step, tower, layer, nMore: one.n_more },
      ...{ x, y, width, height },
    };
    boxes.push(box);
    parent?.inside.push(box);
  }
  return {
    width: info.width,
    height: info.height,
    boxes,
    roots: boxes.filter(({ parent }) => parent === null),
    arrows: info.arrows.map(({ kind, source, target, points }) => ({
      kind,
      source: boxes[source]!,
      target: boxes[target]!,
      points: points as Point[],
    })),
    columns: info.columns,
    heat: info.heat.map(({ data, box, ...rest }) => ({
      ...rest,
      box: boxes[box]!,
      bytes: bytesOf(data),
    })),
    attention: info.arcs.map(({ data, box, n_heads: nHeads, ...rest }) => {
      const bytes = bytesOf(data);
      const values = Float32Array.from(bytes, (byte) => byte / 255);
      return { ...rest, nHeads, box: boxes[box]!, arcs: arcsOf(values, rest.columns) };
    }),
  };
}

function bytesOf(data: string): Uint8Array {
  return Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
}

/** The weights that are worth drawing, largest first; rows are queries. */
export function arcsOf(values: ArrayLike<number>, columns: number): Arc[] {
  const arcs: Arc[] = [];
  for (let at = 0; at < values.length; at++) {
    const weight = values[at]!;
    if (weight < LEAST_WEIGHT) continue;
    arcs.push({ query: Math.floor(at / columns), key: at % columns, weight, rank: 0 });
  }
  arcs.sort((a, b) => b.weight - a.weight);
  const nLarger = new Map<number, number>();
  for (const arc of arcs) {
    arc.rank = nLarger.get(arc.query) ?? 0;
    nLarger.set(arc.query, arc.rank + 1);
  }
  return arcs;
}

/** How much of a step is there at a zoom: from its size on that can be read, which is so much larger
 * on a projector, and not before the name of its part has room beside it. */
export function visibility(step: Box, zoom: number, enlarged = 1): number {
  const bySize = ramp(step.height * zoom * enlarged, READABLE - 4, READABLE + 2);
  return step.tower === null ? bySize : Math.min(bySize, ramp(zoom, 0.6, 0.63));
}

/** Whether the contents of a box can be told apart at a zoom. */
export function isOpen(box: Box, zoom: number, enlarged = 1): boolean {
  if (box.kind === 'tower') return true;
  if (box.kind === 'block') {
    return box.inside.some((one) => one.height * zoom * enlarged >= READABLE);
  }
  return box.inside.some((one) => visibility(one, zoom, enlarged) > 0.5);
}

/** 0 below one size, 1 above another, a ramp between. */
export function ramp(value: number, low: number, high: number): number {
  return Math.min(1, Math.max(0, (value - low) / (high - low)));
}

/** The innermost box at a point of the picture that can be told apart at a zoom. */
export function boxAt(scene: Scene, x: number, y: number, zoom: number, enlarged = 1): Box | null {
  let found: Box | null = null;
  let inside = scene.roots;
  for (;;) {
    const next = inside.find((box) => contains(box, x, y));
    if (next === undefined) return found;
    found = next;
    if (!isOpen(next, zoom, enlarged)) return found;
    inside = next.inside;
  }
}

export function contains(rect: Rect, x: number, y: number): boolean {
  return x >= rect.x && x <= rect.x + rect.width && y >= rect.y && y <= rect.y + rect.height;
}

/** From the outermost box to this one. */
export function wayTo(box: Box | null): Box[] {
  return box === null ? [] : [...wayTo(box.parent), box];
}

/** The boxes whose insides are a picture of their own: what a click zooms to. */
export function isContainer(box: Box): boolean {
  return box.kind !== 'stream' && box.kind !== 'tokens' && box.inside.length > 0;
}

/** The token whose column a point is in; null beside the columns. */
export function columnAt(scene: Scene, tower: number | null, x: number): number | null {
  const columns = tower === null ? undefined : scene.columns[tower];
  if (columns === undefined) return null;
  const place = Math.floor((x - columns.x) / columns.pitch + 0.5);
  return place >= 0 && place < columns.texts.length && isNear(columns, place, x) ? place : null;
}

function isNear(columns: MapColumnsInfo, place: number, x: number): boolean {
  return Math.abs(columns.x + place * columns.pitch - x) <= columns.pitch / 2;
}

/** A part as far as one looks at it: its columns, or its name and steps. */
export function halfOf(scene: Scene, part: Box, isRight: boolean): Rect {
  const columns = part.tower === null ? undefined : scene.columns[part.tower];
  if (columns === undefined) return part;
  const middle = columns.x - columns.pitch / 2 - 20;
  const [y, height] = [part.y - 34, part.height + 68]; // with the rows of the stream around it
  return isRight
    ? { x: middle, y, width: part.x + part.width - middle, height }
    : { x: part.x, y, width: middle - part.x, height };
}

/** The point of a row that tokens pass: the middle of its columns, or of the box itself. */
export function middleOf(scene: Scene, row: Box): Rect {
  return scene.columns.length === 0 ? row : halfOf(scene, row, true);
}

/** Where the keys of an attention come in: its own columns, or others spread over the same width. */
export function keyX(scene: Scene, { box, keys, columns: nKeys }: Attention, key: number): number {
  const own = scene.columns[box.tower!]!;
  if (keys === box.tower) return own.x + key * own.pitch;
  const width = own.texts.length * own.pitch;
  return own.x - own.pitch / 2 + ((key + 0.5) / nKeys) * width;
}

/** The rows of each tower from the bottom up, in the order in which they are computed. */
export function stations(scene: Scene): Box[] {
  return scene.roots.flatMap((root, at) => {
    if (root.kind !== 'tower') return [];
    // A further piece of a tower begins with the tokens and the stream of the one before.
    const isFurther = at > 0 && scene.roots[at - 1]!.name === root.name;
    return rowsIn(root).slice(isFurther ? 2 : 0);
  });
}

function rowsIn(box: Box): Box[] {
  const rows = box.inside.flatMap((one) => (one.kind === 'block' ? rowsIn(one) : [one]));
  return rows.filter(({ kind }) => kind !== 'step').sort((a, b) => b.y - a.y);
}

/** The boxes of a plain graph in the order in which they were computed. */
export function waves(scene: Scene): Box[] {
  return [...scene.roots].sort((a, b) => a.at - b.at);
}
