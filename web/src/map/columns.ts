/** The right half of a tower: a column for each token, and what happens in the columns. */

import { colourTable, INFINITE, N_COLOURS } from '../matrix/colours';
import type { Brush } from './brush';
import type { Rect } from './camera';
import { keyX, ramp, type Attention, type Box, type Heat, type Scene } from './scene';
import { tintOf } from './palette';

/** What of the columns stands out: a token that is pointed at. */
export interface Pointed {
  box: Box;
  column: number | null;
}

const MOST_ARCS = 360;

/** The lines that the tokens go up along, behind everything else. */
export function drawLines(brush: Brush, scene: Scene): void {
  const { canvas, palette } = brush;
  canvas.strokeStyle = palette['map-stream'];
  for (const [tower, { x, pitch, texts }] of scene.columns.entries()) {
    const root = scene.roots.find((one) => one.tower === tower)!;
    const bottom = root.inside.find(({ kind }) => kind === 'tokens')!.y;
    const ends = root.inside.filter(({ kind }) => kind !== 'answer' && kind !== 'head');
    const top = Math.min(...ends.map((one) => one.y)) + 16;
    canvas.lineWidth = Math.max(1, Math.min(2.5, 2 * brush.zoom));
    brush.faded(0.28, () => {
      for (let place = 0; place < texts.length; place++) {
        const [at, low] = brush.at(x + place * pitch, bottom);
        const [, high] = brush.at(0, top);
        canvas.beginPath();
        canvas.moveTo(at, low);
        canvas.lineTo(at, high);
        canvas.stroke();
      }
    });
  }
}

const bitmaps = new WeakMap<Heat, { dark: boolean; image: HTMLCanvasElement }>();

/** One pixel per number: a row for each token. */
function bitmapOf(heat: Heat, dark: boolean): HTMLCanvasElement {
  const known = bitmaps.get(heat);
  if (known?.dark === dark) return known.image;
  const image = document.createElement('canvas');
  [image.width, image.height] = [heat.columns, heat.rows];
  const { packed } = colourTable({ kind: 'signed', limit: 1 }, dark);
  const pixels = new ImageData(heat.columns, heat.rows);
  const words = new Uint32Array(pixels.data.buffer);
  heat.bytes.forEach((byte, at) => {
    words[at] = packed[byte === 255 ? INFINITE : Math.round((byte / 254) * (N_COLOURS - 1))]!;
  });
  image.getContext('2d')?.putImageData(pixels, 0, 0);
  bitmaps.set(heat, { dark, image });
  return image;
}

/** The residual stream after a part: each token's vector as a strip of colours. */
export function drawHeat(brush: Brush, scene: Scene, heat: Heat, pointed: Pointed | null): void {
  const { canvas, palette } = brush;
  const columns = scene.columns[heat.box.tower!]!;
  const image = bitmapOf(heat, palette.dark);
  const width = columns.pitch - Math.min(10, columns.pitch * 0.2);
  canvas.imageSmoothingEnabled = false;
  for (let place = 0; place < heat.rows; place++) {
    const rect = brush.rect({
      x: columns.x + place * columns.pitch - width / 2,
      y: heat.box.y,
      width,
      height: heat.box.height,
    });
    if (!brush.sees(rect)) continue;
    canvas.drawImage(
      ...([image, 0, place, heat.columns, 1] as const),
      ...([rect.x, rect.y, rect.width, rect.height] as const),
    );
    const isPointed = pointed?.box === heat.box && pointed.column === place;
    canvas.strokeStyle = isPointed ? palette.accent : palette['line-strong'];
    canvas.lineWidth = isPointed ? 2 : 1;
    if (rect.height > 5) canvas.strokeRect(rect.x, rect.y, rect.width, rect.height);
  }
}

/** From this width on a column has room for its token. */
const ROOM_FOR_TOKEN = 30;

/** The tokens at the bottom of a tower; slanted below it where the columns are narrow. */
export function drawTokens(brush: Brush, scene: Scene, box: Box): void {
  const { x, pitch, texts, n_tokens: total } = scene.columns[box.tower!]!;
  const size = Math.max(9, Math.min(15, 14 * brush.zoom));
  const isSlanted = pitch * brush.zoom < ROOM_FOR_TOKEN;
  for (const [place, text] of texts.entries()) {
    const rect = brush.rect({
      x: x + place * pitch - pitch / 2 + 2,
      y: box.y + 2,
      width: pitch - 4,
      height: box.height - 4,
    });
    if (!brush.sees(rect)) continue;
    brush.slab(rect, brush.palette['map-embedding'], 0.12, 0.5, 6);
    const middle = rect.x + rect.width / 2;
    if (isSlanted) brush.slant(text, middle + 3, rect.y + rect.height + 8, 10.5, 60);
    else {
      brush.write(text, middle, rect.y + rect.height / 2, size, rect.width - 2, {
        align: 'center',
        weight: 600,
      });
    }
  }
  if (total > texts.length) {
    const [right, middle] = brush.at(x + (texts.length - 0.4) * pitch, box.y + box.height / 2);
    brush.write(`+${total - texts.length}`, right, middle, size, 60, {
      colour: brush.palette.soft,
    });
  }
}

/** The same at the lower edge of the screen, while the tokens themselves are below it. */
export function drawTokensBelow(brush: Brush, scene: Scene, tower: Box): void {
  const tokens = tower.inside.find(({ kind }) => kind === 'tokens')!;
  const [, y] = brush.at(0, tokens.y);
  const edge = brush.screen.height - tokens.height * brush.zoom;
  const [, top] = brush.at(0, tower.y);
  const isSlanted = scene.columns[tower.tower!]!.pitch * brush.zoom < ROOM_FOR_TOKEN;
  if (y <= edge || top > edge || isSlanted) return;
  const height = Math.min(30, tokens.height * brush.zoom) + 6;
  const { x, width } = brush.rect(tower);
  brush.slab({ x, y: brush.screen.height - height, width, height }, brush.palette.panel, 0.92, 0);
  const lifted = { ...tokens, y: tokens.y - (y - edge) / brush.zoom };
  drawTokens(brush, scene, lifted);
}

/** A short text above each column: what a generating model would write there. */
export function drawAnswers(brush: Brush, scene: Scene, box: Box, answers: string[]): void {
  const { x, pitch } = scene.columns[box.tower!]!;
  const size = Math.max(9, Math.min(15, 14 * brush.zoom));
  for (const [place, text] of answers.entries()) {
    const rect = brush.rect({
      x: x + place * pitch - pitch / 2 + 2,
      y: box.y + 8,
      width: pitch - 4,
      height: box.height - 16,
    });
    if (!brush.sees(rect)) continue;
    brush.slab(rect, brush.palette['map-head'], 0.14, 0.6, 6);
    brush.write(text, rect.x + rect.width / 2, rect.y + rect.height / 2, size, rect.width - 2, {
      align: 'center',
      weight: 650,
    });
  }
}

/** What a part that mixes no tokens does in each column. */
export function drawGlyphs(brush: Brush, scene: Scene, box: Box): void {
  const columns = box.tower === null ? undefined : scene.columns[box.tower];
  if (columns === undefined) return;
  const { canvas } = brush;
  canvas.fillStyle = tintOf(brush.palette, box.kind);
  const half = Math.min(20, columns.pitch * 0.3);
  brush.faded(0.55, () => {
    for (let place = 0; place < columns.texts.length; place++) {
      const x = columns.x + place * columns.pitch;
      const shape = glyphOf(box, x, half);
      if (shape === null) return;
      canvas.beginPath();
      for (const [at, [px, py]] of shape.entries()) {
        const [sx, sy] = brush.at(px, py);
        if (at === 0) canvas.moveTo(sx, sy);
        else canvas.lineTo(sx, sy);
      }
      canvas.closePath();
      canvas.fill();
    }
  });
}

/** Wider in the middle: the feed-forward network; a flat bar: a norm. */
function glyphOf(box: Box, x: number, half: number): [number, number][] | null {
  const { y, height } = box;
  const middle = y + height / 2;
  if (box.kind === 'feed_forward') {
    const tall = Math.min(26, height / 2 - 8);
    const narrow = half * 0.35;
    return [
      ...([
        [x - narrow, middle + tall],
        [x + narrow, middle + tall],
      ] as [number, number][]),
      ...([
        [x + half, middle],
        [x + narrow, middle - tall],
      ] as [number, number][]),
      ...([
        [x - narrow, middle - tall],
        [x - half, middle],
      ] as [number, number][]),
    ];
  }
  if (box.kind === 'norm') {
    return [
      [x - half, middle + 3],
      [x + half, middle + 3],
      [x + half, middle - 3],
      [x - half, middle - 3],
    ];
  }
  return null;
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
  const most = Math.min(MOST_ARCS, 40 + Math.round(area.height * 2));
  canvas.strokeStyle = colour;
  canvas.lineCap = 'round';
  const before = canvas.globalAlpha;
  for (const { query, key, weight } of attention.arcs.slice(0, only === null ? most : undefined)) {
    if (only !== null && query !== only) continue;
    const [x, low, toX, high] = endsOf(brush, scene, attention, query, key);
    const middle = (low + high) / 2;
    canvas.globalAlpha = before * Math.min(0.95, 0.08 + 0.9 * weight);
    canvas.lineWidth = Math.max(0.6, (0.6 + 5 * weight) * Math.min(1.4, brush.zoom));
    canvas.beginPath();
    canvas.moveTo(x, low);
    canvas.bezierCurveTo(x, middle, toX, middle, toX, high);
    canvas.stroke();
    if (share !== null) {
      const [px, py] = onCurve(x, low, toX, high, share);
      const radius = 1.5 + 5 * Math.sqrt(weight) * Math.min(1, brush.zoom);
      canvas.globalAlpha = before;
      brush.dot(px, py, radius, colour, Math.min(1, 0.15 + weight));
    }
  }
  canvas.globalAlpha = before;
  if (attention.keys !== box.tower) drawKeys(brush, scene, attention);
  if (only !== null) drawWeights(brush, scene, attention, only);
}

function endsOf(
  brush: Brush,
  scene: Scene,
  attention: Attention,
  query: number,
  key: number,
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
    for (const { query: at, key, weight } of attention.arcs) {
      if (at !== query || weight < 0.05) continue;
      const [x, low] = endsOf(brush, scene, attention, query, key);
      const rect: Rect = { x: x - 15, y: low - 26, width: 30, height: 16 };
      brush.slab(rect, brush.palette.panel, 0.92, 0, 4);
      brush.write(weight.toFixed(2), x, low - 18, 11, 40, { align: 'center', mono: true });
    }
  });
}

/** The tokens on their way: a dot in each column. */
export function drawFront(brush: Brush, scene: Scene, row: Box, share: number): void {
  const columns = row.tower === null ? undefined : scene.columns[row.tower];
  if (columns === undefined) return;
  const radius = Math.max(3, Math.min(7, 6 * brush.zoom));
  for (let place = 0; place < columns.texts.length; place++) {
    const [x, y] = brush.at(columns.x + place * columns.pitch, row.y + row.height * (1 - share));
    brush.dot(x, y, radius * 2.2, brush.palette.accent, 0.18);
    brush.dot(x, y, radius, brush.palette.accent);
  }
}
