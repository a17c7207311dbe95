/** What every part of the picture is drawn with: a canvas in pixels of the screen, and a camera. */

import { toScreen, type Camera, type Rect, type Size } from './camera';
import type { Palette } from './palette';
import type { Point } from './scene';
import { widthOf } from './type';

/** Of a text that is cut, in font sizes: two letters. */
const LEAST_ROOM = 1.4;

export class Brush {
  constructor(
    readonly canvas: CanvasRenderingContext2D,
    readonly camera: Camera,
    readonly screen: Size,
    readonly palette: Palette,
    /** Pixels of the screen for each pixel here: several in a lecture. */
    readonly enlarged = 1,
  ) {}

  get zoom(): number {
    return this.camera.zoom;
  }

  at(x: number, y: number): Point {
    return toScreen(this.camera, this.screen, x, y);
  }

  rect({ x, y, width, height }: Rect): Rect {
    const [left, top] = this.at(x, y);
    return { x: left, y: top, width: width * this.zoom, height: height * this.zoom };
  }

  sees({ x, y, width, height }: Rect): boolean {
    return x < this.screen.width && y < this.screen.height && x + width > 0 && y + height > 0;
  }

  /** A box with round corners, filled with a tint of a colour and outlined by it. */
  slab(rect: Rect, colour: string, fill: number, line: number, radius = 8, width = 1): void {
    const { canvas } = this;
    canvas.beginPath();
    canvas.roundRect(rect.x, rect.y, rect.width, rect.height, Math.min(radius, rect.height / 2));
    const before = canvas.globalAlpha;
    canvas.globalAlpha = before * fill;
    canvas.fillStyle = colour;
    if (fill > 0) canvas.fill();
    canvas.globalAlpha = before * line;
    canvas.strokeStyle = colour;
    canvas.lineWidth = width;
    if (line > 0) canvas.stroke();
    canvas.globalAlpha = before;
  }

  /** Text of a size in pixels, cut to a width; where not even a few letters fit, nothing. */
  write(
    text: string,
    x: number,
    y: number,
    size: number,
    width: number,
    { colour = this.palette.text, align = 'left', weight = 500, mono = false } = {},
  ): void {
    const shown = this.cut(text, size, width, weight, mono);
    if (shown === '') return;
    const { canvas } = this;
    // Whole halves: each other size would have its letters drawn anew.
    canvas.font = `${weight} ${Math.round(size * 2) / 2}px ${mono ? this.palette.mono : this.palette.sans}`;
    canvas.fillStyle = colour;
    canvas.textAlign = align as CanvasTextAlign;
    canvas.textBaseline = 'middle';
    canvas.fillText(shown, x, y);
  }

  /** A text's first letters as far as they fit. */
  cut(text: string, size: number, width: number, weight = 500, mono = false): string {
    const family = mono ? this.palette.mono : this.palette.sans;
    const room = width / (Math.round(size * 2) / 2);
    if (widthOf(text, weight, family) <= room) return text;
    if (room < LEAST_ROOM) return '';
    const letters = [...text];
    let [low, high] = [1, letters.length];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      const shorter = `${letters.slice(0, middle).join('')}…`;
      if (widthOf(shorter, weight, family) <= room) low = middle;
      else high = middle - 1;
    }
    return `${letters.slice(0, low).join('')}…`;
  }

  /** Text that rises to the right; it ends at a point, or begins there. */
  slant(text: string, x: number, y: number, size: number, width: number, begins = false): void {
    const { canvas } = this;
    canvas.save();
    canvas.translate(x, y);
    canvas.rotate(-Math.PI / 4);
    this.write(text, 0, 0, size, width, { align: begins ? 'left' : 'right' });
    canvas.restore();
  }

  /** Lines through points of the picture, with round corners and a head at the end. */
  way(points: Point[], colour: string, width: number, head: number, round = 10): void {
    const { canvas } = this;
    const placed = points.map(([x, y]) => this.at(x, y));
    canvas.strokeStyle = colour;
    canvas.lineWidth = width;
    canvas.lineJoin = 'round';
    canvas.beginPath();
    canvas.moveTo(...placed[0]!);
    for (let at = 1; at < placed.length - 1; at++) {
      canvas.arcTo(...placed[at]!, ...placed[at + 1]!, round * this.zoom);
    }
    canvas.lineTo(...placed.at(-1)!);
    canvas.stroke();
    if (head > 0) this.head(placed.at(-2)!, placed.at(-1)!, colour, head);
  }

  /** A curve through points of the picture that leaves and arrives along one axis. */
  curve(points: Point[], isUpward: boolean, colour: string, width: number, head: number): void {
    const { canvas } = this;
    const placed = points.map(([x, y]) => this.at(x, y));
    canvas.strokeStyle = colour;
    canvas.lineWidth = width;
    canvas.beginPath();
    canvas.moveTo(...placed[0]!);
    for (let at = 1; at < placed.length; at++) {
      const [[x, y], [toX, toY]] = [placed[at - 1]!, placed[at]!];
      if (isUpward) canvas.bezierCurveTo(x, (y + toY) / 2, toX, (y + toY) / 2, toX, toY);
      else canvas.bezierCurveTo((x + toX) / 2, y, (x + toX) / 2, toY, toX, toY);
    }
    canvas.stroke();
    const [x, y] = placed.at(-1)!;
    const before: Point = isUpward ? [x, y + 10] : [x - 10, y];
    if (head > 0) this.head(before, [x, y], colour, head);
  }

  private head([fromX, fromY]: Point, [x, y]: Point, colour: string, size: number): void {
    const { canvas } = this;
    const angle = Math.atan2(y - fromY, x - fromX);
    canvas.fillStyle = colour;
    canvas.beginPath();
    canvas.moveTo(x, y);
    for (const side of [0.45, -0.45]) {
      canvas.lineTo(x - size * Math.cos(angle + side), y - size * Math.sin(angle + side));
    }
    canvas.closePath();
    canvas.fill();
  }

  dot(x: number, y: number, radius: number, colour: string, alpha = 1): void {
    const { canvas } = this;
    const before = canvas.globalAlpha;
    canvas.globalAlpha = before * alpha;
    canvas.fillStyle = colour;
    canvas.beginPath();
    canvas.arc(x, y, radius, 0, 2 * Math.PI);
    canvas.fill();
    canvas.globalAlpha = before;
  }

  /** Draw with a part of the usual opacity. */
  faded(alpha: number, draw: () => void): void {
    const before = this.canvas.globalAlpha;
    this.canvas.globalAlpha = before * alpha;
    draw();
    this.canvas.globalAlpha = before;
  }
}

/** A canvas whose pixels have the packed colours that a function gives. */
export function imageOf(
  width: number,
  height: number,
  colour: (x: number, y: number) => number,
): HTMLCanvasElement {
  const image = document.createElement('canvas');
  [image.width, image.height] = [width, height];
  const pixels = new ImageData(width, height);
  const words = new Uint32Array(pixels.data.buffer);
  for (let at = 0; at < words.length; at++) words[at] = colour(at % width, Math.floor(at / width));
  image.getContext('2d')?.putImageData(pixels, 0, 0);
  return image;
}
