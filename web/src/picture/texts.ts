/** The words of a page: each line of a text at its place, in its own type. */

import { escaped, tag } from './svg_text';
import type { Collected } from './svg_of';

const canvas = () => document.createElement('canvas').getContext('2d');
let measuring: CanvasRenderingContext2D | null = null;

/** How much larger an element is drawn than its style says: a lecture enlarges the page. */
export function zoomOf(element: Element): number {
  return (element as Element & { currentCSSZoom?: number }).currentCSSZoom ?? 1;
}

export function textsOf(
  node: Text,
  element: Element,
  style: CSSStyleDeclaration,
  found: Collected,
): string[] {
  if (node.data.trim() === '') return [];
  const zoom = zoomOf(element);
  const size = parseFloat(style.fontSize) * zoom;
  found.fonts.add(`${style.fontFamily}|${style.fontWeight}|${style.fontStyle}`);
  const type = {
    'font-family': style.fontFamily,
    'font-size': size,
    'font-weight': style.fontWeight === '400' ? null : style.fontWeight,
    'font-style': style.fontStyle === 'normal' ? null : style.fontStyle,
    'letter-spacing':
      style.letterSpacing === 'normal' ? null : parseFloat(style.letterSpacing) * zoom,
    'text-decoration': style.textDecorationLine === 'none' ? null : style.textDecorationLine,
    fill: style.color,
    'xml:space': 'preserve',
  };
  const isUpright = style.writingMode.startsWith('vertical');
  return linesOf(node, isUpright).map(({ text, box }) => {
    const place = isUpright
      ? uprightAt(box, size, style, found)
      : { x: box.left - found.left, y: box.top - found.top + ascent(style, zoom) };
    // As wide in programs that lack the font.
    const length = text.length > 1 ? (isUpright ? box.height : box.width) : null;
    const fitted = {
      textLength: length,
      lengthAdjust: length === null ? null : 'spacingAndGlyphs',
    };
    return tag('text', { ...place, ...type, ...fitted }, escaped(text));
  });
}

interface Line {
  text: string;
  box: DOMRect;
}

/** The lines that a text is broken into. */
function linesOf(node: Text, isUpright: boolean): Line[] {
  const range = document.createRange();
  const boxOf = (from: number, to: number): Line => {
    const text = node.data.slice(from, to);
    // Spaces at the ends are drawn or not: without them text and box surely agree.
    range.setStart(node, from + text.length - text.trimStart().length);
    range.setEnd(node, from + text.trimEnd().length);
    return { text: shown(text), box: range.getBoundingClientRect() };
  };
  range.selectNodeContents(node);
  const boxes = [...range.getClientRects()].filter(({ width, height }) => width + height > 0);
  if (boxes.length === 0) return [];
  if (boxes.length === 1 || isUpright) return [boxOf(0, node.length)];
  const lines: { top: number; from: number; to: number }[] = [];
  for (let at = 0; at < node.length; at++) {
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    const box = [...range.getClientRects()].find(({ width }) => width > 0);
    if (box === undefined) continue;
    const last = lines.at(-1);
    const isSame = last !== undefined && Math.abs(last.top - box.top) < box.height / 2;
    if (isSame) last.to = at + 1;
    else lines.push({ top: box.top, from: at, to: at + 1 });
  }
  return lines.map(({ from, to }) => boxOf(from, to)).filter(({ text }) => text !== '');
}

/** As a browser shows it: what is broken or indented in the source is one space. */
function shown(text: string): string {
  return text.replace(/[\t\n\r ]+/g, ' ').trim();
}

/** From the upper edge of a line to the foot of its letters. */
function ascent(style: CSSStyleDeclaration, zoom: number): number {
  measuring ??= canvas();
  if (measuring === null) return parseFloat(style.fontSize) * zoom;
  measuring.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  return measuring.measureText('x').fontBoundingBoxAscent * zoom;
}

/** A label that stands upright: from below, as ours do, or from above. */
function uprightAt(box: DOMRect, size: number, style: CSSStyleDeclaration, found: Collected) {
  const isFromBelow = style.transform.startsWith('matrix(-1');
  const aside = 0.35 * size * (isFromBelow ? 1 : -1);
  const x = box.left - found.left + box.width / 2 + aside;
  const y = (isFromBelow ? box.bottom : box.top) - found.top;
  return { transform: `translate(${x} ${y})rotate(${isFromBelow ? -90 : 90})` };
}
