/** Drawing on a canvas: tiles as pictures of one pixel per number, scaled to where they stand. */

import { colourRows, INFINITE, type ColourTable, type MatrixScale } from './colours';
import { placeIn, type View } from './grid.svelte';
import type { Tile } from './tiles';
import type { Box, Window } from './viewport';

/** From this size on a cell has room for a hatch, a mark or a glyph. */
export const ROOM_FOR_MARKS = 6;
const ROOM_FOR_GAPS = 8;

interface Picture {
  table: ColourTable;
  scale: MatrixScale | null;
  canvas: HTMLCanvasElement;
}

const pictures = new WeakMap<Tile, Picture>();

/** The picture of a tile, made once for each colour table. */
export function pictureOf(
  tile: Tile,
  scale: MatrixScale | null,
  table: ColourTable,
): HTMLCanvasElement {
  const known = pictures.get(tile);
  const isSame = known?.scale?.limit === scale?.limit && known?.scale?.limits === scale?.limits;
  if (known !== undefined && known.table === table && isSame) return known.canvas;
  const canvas = known?.canvas ?? document.createElement('canvas');
  canvas.width = tile.columns;
  canvas.height = tile.rows;
  const image = new ImageData(tile.columns, tile.rows);
  const pixels = new Uint32Array(image.data.buffer);
  colourRows(tile, scale, table, pixels);
  tile.unwritten?.forEach((isSo, at) => {
    if (isSo) pixels[at] = table.packed[INFINITE];
  });
  canvas.getContext('2d')?.putImageData(image, 0, 0);
  pictures.set(tile, { table, scale, canvas });
  return canvas;
}

export interface Scene extends View {
  scale: MatrixScale | null;
  table: ColourTable;
  /** How much larger the page is in a lecture: as many more pixels are drawn. */
  enlarged: number;
  /** CSS colours of the panel. */
  background: string;
  foreground: string;
  changed: string;
}

/** Draw what a box shows, and say in the browser's timeline how long its numbers took. */
export function drawScene(canvas: HTMLCanvasElement, scene: Scene): void {
  const started = performance.now();
  const context = blankOn(canvas, scene.box, scene.enlarged);
  if (context === null || scene.tiles.length === 0) return;
  for (const tile of scene.tiles) drawTile(context, scene, tile);
  const small = Math.min(scene.sizes.width, scene.sizes.height);
  if (small >= ROOM_FOR_GAPS) drawGaps(context, scene);
  if (small >= ROOM_FOR_MARKS) for (const tile of scene.tiles) drawMarks(context, scene, tile);
  performance.measure('glassformer:draw', {
    start: started,
    end: performance.now(),
    detail: { rows: scene.sizes.rows, columns: scene.sizes.columns },
  });
}

/** A canvas of a box's size with nothing on it, its units those of the page. */
function blankOn(
  canvas: HTMLCanvasElement,
  box: Box,
  enlarged: number,
): CanvasRenderingContext2D | null {
  const ratio = (window.devicePixelRatio || 1) * enlarged;
  const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext('2d');
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  context?.clearRect(0, 0, box.width, box.height);
  return context;
}

function drawTile(context: CanvasRenderingContext2D, scene: Scene, tile: Tile): void {
  const { sizes, scroll, table, scale } = scene;
  const visible = overlap(scene.window, tile);
  if (visible.right <= visible.left || visible.bottom <= visible.top) return;
  const [columns, rows] = [visible.right - visible.left, visible.bottom - visible.top];
  context.imageSmoothingEnabled = sizes.width < 1 || sizes.height < 1;
  context.drawImage(
    pictureOf(tile, scale, table),
    visible.left - tile.left,
    visible.top - tile.top,
    columns,
    rows,
    visible.left * sizes.width - scroll.x,
    visible.top * sizes.height - scroll.y,
    columns * sizes.width,
    rows * sizes.height,
  );
}

function overlap(window: Window, tile: Tile): Window {
  return {
    top: Math.max(window.top, tile.top),
    bottom: Math.min(window.bottom, tile.top + tile.rows),
    left: Math.max(window.left, tile.left),
    right: Math.min(window.right, tile.left + tile.columns),
  };
}

/** Lines of the panel's background between the cells. */
function drawGaps(context: CanvasRenderingContext2D, scene: Scene): void {
  const { sizes, scroll, window, box } = scene;
  context.fillStyle = scene.background;
  for (let column = window.left; column <= window.right; column++) {
    context.fillRect(column * sizes.width - scroll.x - 0.5, 0, 1, box.height);
  }
  for (let row = window.top; row <= window.bottom; row++) {
    context.fillRect(0, row * sizes.height - scroll.y - 0.5, box.width, 1);
  }
}

/** Hatches for infinities and what nothing wrote to, a cross for NaN, a corner for what an edit changed. */
function drawMarks(context: CanvasRenderingContext2D, scene: Scene, tile: Tile): void {
  const { sizes, scroll, isChanged } = scene;
  const { top, bottom, left, right } = overlap(scene.window, tile);
  for (let row = top; row < bottom; row++) {
    for (let column = left; column < right; column++) {
      const place = placeIn(tile, row, column);
      const value = tile.unwritten?.[place] ? Infinity : tile.values[place];
      const x = column * sizes.width - scroll.x;
      const y = row * sizes.height - scroll.y;
      if (!Number.isFinite(value)) drawOddity(context, scene, value, x, y);
      if (isChanged?.(row, column)) drawCorner(context, scene, x + sizes.width, y);
    }
  }
}

function drawOddity(
  context: CanvasRenderingContext2D,
  { sizes: { width, height }, foreground }: Scene,
  value: number,
  x: number,
  y: number,
): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.beginPath();
  if (Number.isNaN(value)) {
    context.strokeStyle = '#fff';
    context.moveTo(x + 2, y + 2);
    context.lineTo(x + width - 2, y + height - 2);
    context.moveTo(x + width - 2, y + 2);
    context.lineTo(x + 2, y + height - 2);
  } else {
    context.strokeStyle = foreground;
    context.globalAlpha = 0.35;
    for (let start = -height; start < width; start += 5) {
      context.moveTo(x + start, y + height);
      context.lineTo(x + start + height, y);
    }
  }
  context.stroke();
  context.restore();
}

function drawCorner(context: CanvasRenderingContext2D, scene: Scene, x: number, y: number): void {
  const side = Math.min(7, scene.sizes.width / 2, scene.sizes.height / 2);
  context.fillStyle = scene.changed;
  context.beginPath();
  context.moveTo(x - side, y);
  context.lineTo(x, y);
  context.lineTo(x, y + side);
  context.fill();
}
