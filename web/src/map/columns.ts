/** The right half of a tower: a column for each token, and what happens in the columns. */

import { colourTable, INFINITE, N_COLOURS } from '../matrix/colours';
import { imageOf, type Brush } from './brush';
import type { MapColumnsInfo } from '../lib/api';
import type { Rect } from './camera';
import {
  keyX,
  ramp,
  type Arc,
  type Attention,
  type Box,
  type Heat,
  type Point,
  type Scene,
} from './scene';
import { tintOf } from './palette';

/** What of the columns stands out: a token that is pointed at. */
export interface Pointed {
  box: Box;
  column: number | null;
}

/** Of each attention, shared out among its queries. */
const MOST_ARCS = 480;

/** The lines that the tokens go up along, behind everything else. */
export function drawLines(brush: Brush, scene: Scene): void {
  const { canvas, palette } = brush;
  canvas.strokeStyle = palette['map-stream'];
  for (const [tower, { x, pitch, texts }] of scene.columns.entries()) {
    const root = scene.roots.find((one) => one.tower === tower)!;
    const bottom = root.inside.find(({ kind }) => kind === 'tokens')!.y;
    const ends = root.inside.filter(({ kind }) => kind !== 'answer' && kind !== 'head');
    const top = Math.min(...ends.map((one) => one.y)) + 16;
    const [, low] = brush.at(0, bottom);
    const [, high] = brush.at(0, top);
    canvas.lineWidth = Math.max(1, Math.min(2.5, 2 * brush.zoom));
    canvas.beginPath();
    for (let place = 0; place < texts.length; place++) {
      const [at] = brush.at(x + place * pitch, 0);
      canvas.moveTo(at, low);
      canvas.lineTo(at, high);
    }
    brush.faded(0.28, () => canvas.stroke());
  }
}

interface HeatImages {
  dark: boolean;
  /** One pixel per number: a row for each token. */
  rows: HTMLCanvasElement;
  /** All tokens beside each other, one pixel per unit of the picture. */
  band: HTMLCanvasElement;
}
const images = new WeakMap<Heat, HeatImages>();

function imagesOf(heat: Heat, { pitch }: MapColumnsInfo, dark: boolean): HeatImages {
  const known = images.get(heat);
  if (known?.dark === dark) return known;
  const { packed } = colourTable({ kind: 'signed', limit: 1 }, dark);
  const colourAt = (place: number, column: number) => {
    const byte = heat.bytes[place * heat.columns + column]!;
    return packed[byte === 255 ? INFINITE : Math.round((byte / 254) * (N_COLOURS - 1))]!;
  };
  const width = stripWidth(pitch);
  const made = {
    dark,
    rows: imageOf(heat.columns, heat.rows, (x, y) => colourAt(y, x)),
    band: imageOf(Math.round(heat.rows * pitch), 1, (x) => {
      const place = Math.floor((x + 0.5) / pitch);
      const share = (x + 0.5 - (place + 0.5) * pitch) / width + 0.5;
      return share < 0 || share >= 1 ? 0 : colourAt(place, Math.floor(share * heat.columns));
    }),
  };
  images.set(heat, made);
  return made;
}

function stripWidth(pitch: number): number {
  return pitch - Math.min(10, pitch * 0.2);
}

/** The residual stream after a part: each token's vector as a strip of colours. */
export function drawHeat(brush: Brush, scene: Scene, heat: Heat, pointed: Pointed | null): void {
  const { canvas, palette } = brush;
  const columns = scene.columns[heat.box.tower!]!;
  const { rows, band } = imagesOf(heat, columns, palette.dark);
  const { y, height } = heat.box;
  canvas.imageSmoothingEnabled = false;
  if (height * brush.zoom <= 5) {
    // too low for outlines: all strips in one go
    const left = columns.x - columns.pitch / 2;
    const all = brush.rect({ x: left, y, width: heat.rows * columns.pitch, height });
    canvas.drawImage(band, all.x, all.y, all.width, all.height);
    return;
  }
  const width = stripWidth(columns.pitch);
  for (let place = 0; place < heat.rows; place++) {
    const x = columns.x + place * columns.pitch - width / 2;
    const rect = brush.rect({ x, y, width, height });
    if (!brush.sees(rect)) continue;
    canvas.drawImage(
      ...([rows, 0, place, heat.columns, 1] as const),
      ...([rect.x, rect.y, rect.width, rect.height] as const),
    );
    const isPointed = pointed?.box === heat.box && pointed.column === place;
    canvas.strokeStyle = isPointed ? palette.accent : palette['line-strong'];
    canvas.lineWidth = isPointed ? 2 : 1;
    canvas.strokeRect(rect.x, rect.y, rect.width, rect.height);
  }
}

/** In columns that are narrower, a text that does not fit lies aslant beside its column. */
const ROOM_FOR_TEXT = 64;
const WEIGHT = 600;
/** Aslant, texts need this much between them. */
const SLANT_PITCH = 13;

/** The texts of a row, one in each column; aslant below or above it where one does not fit. */
function drawTexts(
  brush: Brush,
  scene: Scene,
  box: Box,
  texts: readonly string[],
  { inset, tint, isAbove }: { inset: number; tint: string; isAbove: boolean },
): void {
  const { x, pitch } = scene.columns[box.tower!]!;
  const size = textSize(brush);
  const isAslant = areAslant(brush, texts, pitch * brush.zoom, size);
  const each = isAslant ? Math.ceil(SLANT_PITCH / (pitch * brush.zoom)) : 1;
  for (const [place, text] of texts.entries()) {
    const rect = brush.rect({
      x: x + place * pitch - pitch / 2 + 2,
      y: box.y + inset,
      width: pitch - 4,
      height: box.height - 2 * inset,
    });
    if (!brush.sees(rect)) continue;
    brush.slab(rect, tint, 0.13, 0.55, 6);
    const [middle, centre] = [rect.x + rect.width / 2, rect.y + rect.height / 2];
    if (!isAslant) {
      brush.write(text, middle, centre, size, rect.width - 2, { align: 'center', weight: WEIGHT });
    } else if (place % each === 0) {
      const y = isAbove ? rect.y - 6 : rect.y + rect.height + 8;
      brush.slant(text, middle + (isAbove ? 0 : 3), y, 10.5, 60, isAbove);
    }
  }
}

function textSize({ zoom }: Brush): number {
  return Math.max(9, Math.min(15, 14 * zoom));
}

function areAslant(brush: Brush, texts: readonly string[], pitch: number, size: number): boolean {
  if (pitch >= ROOM_FOR_TEXT) return false;
  return texts.some((text) => brush.cut(text, size, pitch - 6, WEIGHT) !== text);
}

/** The tokens at the bottom of a tower. */
export function drawTokens(brush: Brush, scene: Scene, box: Box): void {
  const { x, pitch, texts, n_tokens: total } = scene.columns[box.tower!]!;
  const tint = brush.palette['map-embedding'];
  drawTexts(brush, scene, box, texts, { inset: 2, tint, isAbove: false });
  if (total > texts.length) {
    const [right, middle] = brush.at(x + (texts.length - 0.4) * pitch, box.y + box.height / 2);
    brush.write(`+${total - texts.length}`, right, middle, textSize(brush), 60, {
      colour: brush.palette.soft,
    });
  }
}

/** The same at the lower edge of the screen, while the tokens themselves are below it. */
export function drawTokensBelow(brush: Brush, scene: Scene, tower: Box, floor = 0): void {
  const tokens = tower.inside.find(({ kind }) => kind === 'tokens')!;
  const [, y] = brush.at(0, tokens.y);
  const low = brush.screen.height - floor;
  const edge = low - tokens.height * brush.zoom;
  const [, top] = brush.at(0, tower.y);
  const { pitch, texts } = scene.columns[tower.tower!]!;
  const size = textSize(brush);
  if (y <= edge || top > edge || areAslant(brush, texts, pitch * brush.zoom, size)) return;
  const height = Math.min(30, tokens.height * brush.zoom) + 6;
  const { x, width } = brush.rect(tower);
  brush.slab({ x, y: low - height, width, height: height + floor }, brush.palette.panel, 0.92, 0);
  const lifted = { ...tokens, y: tokens.y - (y - edge) / brush.zoom };
  drawTokens(brush, scene, lifted);
}

/** What a generating model would write in each column. */
export function drawAnswers(brush: Brush, scene: Scene, box: Box, answers: string[]): void {
  const tint = brush.palette['map-head'];
  drawTexts(brush, scene, box, answers, { inset: 8, tint, isAbove: true });
}

/** Where answers begin that lie aslant above a tower; null where they lie in their columns. */
export function slantFrom(
  brush: Brush,
  scene: Scene,
  tower: Box,
  answers: string[],
): number | null {
  const columns = tower.tower === null ? undefined : scene.columns[tower.tower];
  if (columns === undefined) return null;
  const { x, pitch } = columns;
  const isAbove = tower.inside.some(({ kind }) => kind === 'answer');
  if (!isAbove || !areAslant(brush, answers, pitch * brush.zoom, textSize(brush))) return null;
  return brush.at(x - pitch / 2, 0)[0];
}

/** What a part that mixes no tokens does in each column. */
export function drawGlyphs(brush: Brush, scene: Scene, box: Box): void {
  const columns = box.tower === null ? undefined : scene.columns[box.tower];
  if (columns === undefined) return;
  const { canvas } = brush;
  const half = Math.min(20, columns.pitch * 0.3);
  const shape = glyphOf(box, half);
  if (shape.length === 0) return;
  canvas.fillStyle = tintOf(brush.palette, box.kind);
  canvas.beginPath();
  for (let place = 0; place < columns.texts.length; place++) {
    for (const [at, [x, y]] of shape.entries()) {
      const point = brush.at(columns.x + place * columns.pitch + x, y);
      if (at === 0) canvas.moveTo(...point);
      else canvas.lineTo(...point);
    }
    canvas.closePath();
  }
  brush.faded(0.55, () => canvas.fill());
}

/** Wider in the middle: the feed-forward network or experts; a flat bar: a norm. */
function glyphOf({ kind, y, height }: Box, half: number): Point[] {
  const middle = y + height / 2;
  if (kind === 'norm') {
    const [low, high] = [middle + 3, middle - 3];
    return [[-half, low], [half, low], [half, high], [-half, high]]; // prettier-ignore
  }
  if (kind !== 'feed_forward' && kind !== 'experts') return [];
  const tall = Math.min(26, height / 2 - 8);
  const [low, high, narrow] = [middle + tall, middle - tall, half * 0.35];
  const right: Point[] = [[narrow, low], [half, middle], [narrow, high]]; // prettier-ignore
  return [...right, [-narrow, high], [-half, middle], [-narrow, low]];
}

/** The columns of an attention: from each key's column up to the queries that look at it. */
export function drawArcs(
  brush: Brush,
  scene: Scene,
  attention: Attention,
  pointed: Pointed | null,
  share: number | null,
): void {
  const { canvas, palette } = brush;
  const { box } = attention;
  const area = brush.rect(box);
  if (!brush.sees(area) || area.height < 6) return;
  const colour = tintOf(palette, box.kind);
  const only = pointed?.box === box ? pointed.column : null;
  const most = Math.min(MOST_ARCS, 40 + Math.round(area.height * 2)) / attention.rows;
  canvas.strokeStyle = colour;
  canvas.lineCap = 'round';
  const shown = attention.arcs.filter(({ query, rank }) =>
    only === null ? rank < most : query === only,
  );
  // Weights that look the same are one path: a stroke for each would take longer than a frame.
  for (let from = 0, to = 0; from < shown.length; from = to) {
    const weight = levelOf(shown[from]!.weight);
    canvas.lineWidth = Math.max(0.6, (0.6 + 5 * weight) * Math.min(1.4, brush.zoom));
    canvas.beginPath();
    for (; to < shown.length && levelOf(shown[to]!.weight) === weight; to++) {
      const [x, low, toX, high] = endsOf(brush, scene, attention, shown[to]!);
      const middle = (low + high) / 2;
      canvas.moveTo(x, low);
      canvas.bezierCurveTo(x, middle, toX, middle, toX, high);
    }
    brush.faded(Math.min(0.95, 0.08 + 0.9 * weight), () => canvas.stroke());
  }
  for (const arc of share === null ? [] : shown) {
    const [px, py] = onCurve(...endsOf(brush, scene, attention, arc), share!);
    const radius = 1.5 + 5 * Math.sqrt(arc.weight) * Math.min(1, brush.zoom);
    brush.dot(px, py, radius, colour, Math.min(1, 0.15 + arc.weight));
  }
  if (attention.keys !== box.tower) drawKeys(brush, scene, attention);
  if (only !== null) drawWeights(brush, scene, attention, only);
}

/** The middle of the class that a weight is drawn in: 16 thicknesses can be told apart. */
function levelOf(weight: number): number {
  return (Math.min(15, Math.floor(weight * 16)) + 0.5) / 16;
}

function endsOf(
  brush: Brush,
  scene: Scene,
  attention: Attention,
  { query, key }: Pick<Arc, 'query' | 'key'>,
): [number, number, number, number] {
  const { box } = attention;
  const own = scene.columns[box.tower!]!;
  const isCross = attention.keys !== box.tower;
  const [x, low] = brush.at(keyX(scene, attention, key), box.y + box.height - (isCross ? 16 : 0));
  const [toX, high] = brush.at(own.x + query * own.pitch, box.y);
  return [x, low, toX, high];
}

function onCurve(
  x: number,
  low: number,
  toX: number,
  high: number,
  share: number,
): [number, number] {
  const left = 1 - share;
  const early = left ** 3 + 3 * left ** 2 * share;
  const middle = (low + high) / 2;
  const y = left ** 3 * low + 3 * left * share * middle + share ** 3 * high;
  return [early * x + (1 - early) * toX, y];
}

/** The tokens of the other tower, where they come into a cross-attention. */
function drawKeys(brush: Brush, scene: Scene, attention: Attention): void {
  const { box, columns: nKeys } = attention;
  const texts = scene.columns[attention.keys]!.texts;
  const own = scene.columns[box.tower!]!;
  const pitch = ((own.texts.length * own.pitch) / nKeys) * brush.zoom;
  const size = Math.min(12, 11 * brush.zoom);
  for (let key = 0; key < nKeys; key++) {
    const [x, y] = brush.at(keyX(scene, attention, key), box.y + box.height - 8);
    brush.dot(x, y - 8 * brush.zoom, Math.max(1.2, 2.2 * brush.zoom), brush.palette['map-cross']);
    if (size < 7) continue;
    brush.write(texts[key] ?? '', x, y, size, pitch - 2, {
      align: 'center',
      colour: brush.palette['map-cross'],
    });
  }
}

/** The weights of one query, written where its arcs begin. */
function drawWeights(brush: Brush, scene: Scene, attention: Attention, query: number): void {
  const alpha = ramp(brush.zoom * 11, 6, 9);
  if (alpha === 0) return;
  brush.faded(alpha, () => {
    for (const arc of attention.arcs) {
      if (arc.query !== query || arc.weight < 0.05) continue;
      const [x, low] = endsOf(brush, scene, attention, arc);
      const rect: Rect = { x: x - 15, y: low - 26, width: 30, height: 16 };
      brush.slab(rect, brush.palette.panel, 0.92, 0, 4);
      brush.write(arc.weight.toFixed(2), x, low - 18, 11, 40, { align: 'center', mono: true });
    }
  });
}

/** The tokens on their way: a dot in each column, or one where the answer is a single one. */
export function drawFront(
  brush: Brush,
  scene: Scene,
  row: Box,
  share: number,
  isSingle: boolean,
): void {
  const columns = row.tower === null ? undefined : scene.columns[row.tower];
  if (columns === undefined) return;
  const radius = Math.max(3, Math.min(7, 6 * brush.zoom));
  const { length } = columns.texts;
  const places = isSingle ? [(length - 1) / 2] : columns.texts.keys();
  for (const place of places) {
    const [x, y] = brush.at(columns.x + place * columns.pitch, row.y + row.height * (1 - share));
    brush.dot(x, y, radius * 2.2, brush.palette.accent, 0.18);
    brush.dot(x, y, radius, brush.palette.accent);
  }
}
