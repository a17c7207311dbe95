/**
 * As much of a canvas as the picture of a model is drawn with, written as SVG: the same drawing, sharp
 * at any size and open to other programs.
 */

import { escaped, round, tag } from './svg_text';

interface Pen {
  fillStyle: string;
  strokeStyle: string;
  lineWidth: number;
  lineJoin: CanvasLineJoin;
  lineCap: CanvasLineCap;
  globalAlpha: number;
  font: string;
  textAlign: CanvasTextAlign;
  textBaseline: CanvasTextBaseline;
}

const ANCHORS: Partial<Record<CanvasTextAlign, string>> = {
  center: 'middle',
  right: 'end',
  end: 'end',
};
/** From the middle of small letters down to their line, in font sizes. */
const MIDDLE = 0.35;

export class VectorCanvas implements Pen {
  fillStyle = '#000';
  strokeStyle = '#000';
  lineWidth = 1;
  lineJoin: CanvasLineJoin = 'miter';
  lineCap: CanvasLineCap = 'butt';
  globalAlpha = 1;
  font = '10px sans-serif';
  textAlign: CanvasTextAlign = 'start';
  textBaseline: CanvasTextBaseline = 'alphabetic';
  imageSmoothingEnabled = true;

  /** What was drawn, in its order. */
  readonly parts: string[] = [];
  private path = '';
  /** The end of the path. */
  private at: [number, number] = [0, 0];
  private transform = '';
  private readonly kept: (Pen & { transform: string })[] = [];

  clearRect(): void {
    this.parts.length = 0; // always the whole canvas
  }

  save(): void {
    const { fillStyle, strokeStyle, lineWidth, lineJoin, lineCap } = this;
    const { globalAlpha, font, textAlign, textBaseline, transform } = this;
    const lines = { fillStyle, strokeStyle, lineWidth, lineJoin, lineCap };
    this.kept.push({ ...lines, globalAlpha, font, textAlign, textBaseline, transform });
  }

  restore(): void {
    const before = this.kept.pop();
    if (before !== undefined) Object.assign(this, before);
  }

  translate(x: number, y: number): void {
    this.transform += `translate(${round(x)} ${round(y)})`;
  }

  rotate(angle: number): void {
    this.transform += `rotate(${round((angle * 180) / Math.PI)})`;
  }

  beginPath(): void {
    this.path = '';
  }

  moveTo(x: number, y: number): void {
    this.go('M', x, y);
  }

  lineTo(x: number, y: number): void {
    this.go('L', x, y);
  }

  bezierCurveTo(...points: [number, number, number, number, number, number]): void {
    this.path += `C${points.map(round).join(' ')}`;
    this.at = [points[4], points[5]];
  }

  closePath(): void {
    this.path += 'Z';
  }

  /** Whole circles alone. */
  arc(x: number, y: number, radius: number): void {
    const half = (side: number) =>
      `A${round(radius)} ${round(radius)} 0 1 0 ${round(x + side * radius)} ${round(y)}`;
    this.path += `M${round(x + radius)} ${round(y)}${half(-1)}${half(1)}Z`;
  }

  /** A line towards a corner, round it, and on the way to the next point. */
  arcTo(x: number, y: number, toX: number, toY: number, radius: number): void {
    const [inX, inY] = direction(this.at, [x, y]);
    const [outX, outY] = direction([x, y], [toX, toY]);
    const cross = inX * outY - inY * outX;
    const turn = Math.atan2(cross, inX * outX + inY * outY);
    if (Math.abs(cross) < 1e-9) return this.lineTo(x, y);
    const before = radius * Math.tan(Math.abs(turn) / 2);
    this.lineTo(x - inX * before, y - inY * before);
    const end: [number, number] = [x + outX * before, y + outY * before];
    const arc = [radius, radius, 0, 0, turn > 0 ? 1 : 0, ...end];
    this.path += `A${arc.map(round).join(' ')}`;
    this.at = end;
  }

  roundRect(x: number, y: number, width: number, height: number, radius: number): void {
    const r = Math.max(0, Math.min(radius, width / 2, height / 2));
    const [right, bottom] = [x + width, y + height];
    const corner = (toX: number, toY: number) =>
      `A${round(r)} ${round(r)} 0 0 1 ${round(toX)} ${round(toY)}`;
    this.path +=
      `M${round(x + r)} ${round(y)}H${round(right - r)}${corner(right, y + r)}` +
      `V${round(bottom - r)}${corner(right - r, bottom)}` +
      `H${round(x + r)}${corner(x, bottom - r)}V${round(y + r)}${corner(x + r, y)}Z`;
  }

  fill(): void {
    this.draw('path', { d: this.path, fill: this.fillStyle });
  }

  stroke(): void {
    this.draw('path', { d: this.path, fill: 'none', ...this.line() });
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    this.draw('rect', { x, y, width, height, fill: 'none', ...this.line() });
  }

  fillText(text: string, x: number, y: number): void {
    const { weight, size, family } = fontOf(this.font);
    const attributes = {
      x,
      y: this.textBaseline === 'middle' ? y + MIDDLE * size : y,
      fill: this.fillStyle,
      'font-family': family,
      'font-size': size,
      'font-weight': weight,
      'text-anchor': ANCHORS[this.textAlign],
    };
    this.draw('text', attributes, text);
  }

  /** A small picture of numbers: a part of it, or all. */
  drawImage(image: HTMLCanvasElement, ...at: number[]): void {
    const whole = [0, 0, image.width, image.height];
    const [x, y, width, height] = (at.length > 4 ? at.slice(0, 4) : whole) as Rect;
    const [left, top, right, bottom] = at.slice(-4) as Rect;
    if (width <= 0 || height <= 0) return;
    this.draw('image', {
      x: left,
      y: top,
      width: right,
      height: bottom,
      preserveAspectRatio: 'none',
      style: 'image-rendering:pixelated',
      'xlink:href': part(image, x, y, width, height).toDataURL(),
    });
  }

  private go(letter: string, x: number, y: number): void {
    this.path += `${letter}${round(x)} ${round(y)}`;
    this.at = [x, y];
  }

  private line() {
    return {
      stroke: this.strokeStyle,
      'stroke-width': this.lineWidth,
      'stroke-linejoin': this.lineJoin === 'miter' ? null : this.lineJoin,
      'stroke-linecap': this.lineCap === 'butt' ? null : this.lineCap,
    };
  }

  private draw(name: string, attributes: Parameters<typeof tag>[1], text = ''): void {
    const opacity = this.globalAlpha < 1 ? this.globalAlpha : null;
    const placed = { ...attributes, opacity, transform: this.transform };
    this.parts.push(tag(name, placed, escaped(text)));
  }
}

type Rect = [number, number, number, number];

function direction([x, y]: [number, number], [toX, toY]: [number, number]): [number, number] {
  const length = Math.hypot(toX - x, toY - y) || 1;
  return [(toX - x) / length, (toY - y) / length];
}

/** `600 13px system-ui, sans-serif` in its parts. */
function fontOf(font: string): { weight: string; size: number; family: string } {
  const found = /^(?:(\d+) )?([\d.]+)px (.*)$/.exec(font);
  if (found === null) return { weight: '400', size: 10, family: font };
  return { weight: found[1] ?? '400', size: Number(found[2]), family: found[3]! };
}

function part(
  image: HTMLCanvasElement,
  x: number,
  y: number,
  width: number,
  height: number,
): HTMLCanvasElement {
  if (x === 0 && y === 0 && width === image.width && height === image.height) return image;
  const piece = document.createElement('canvas');
  [piece.width, piece.height] = [width, height];
  piece.getContext('2d')?.drawImage(image, x, y, width, height, 0, 0, width, height);
  return piece;
}
