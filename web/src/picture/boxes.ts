/** The boxes of a page: what they are filled and framed with. */

import { zoomOf } from './texts';
import { tag } from './svg_text';
import type { Collected } from './svg_of';

const CLEAR = /^rgba\(.*, 0\)$|^transparent$/;
const SIDES = ['Top', 'Right', 'Bottom', 'Left'] as const;

export function backgroundOf(
  element: Element,
  style: CSSStyleDeclaration,
  found: Collected,
): string {
  const box = boxOf(element, found);
  if (box === null) return '';
  const rx = parseFloat(style.borderTopLeftRadius) * zoomOf(element) || null;
  const place = { ...box, rx: rx === null ? null : Math.min(rx, box.width / 2, box.height / 2) };
  const colour = CLEAR.test(style.backgroundColor)
    ? ''
    : tag('rect', { ...place, fill: style.backgroundColor });
  const pattern = patternOf(style.backgroundImage, box, found);
  return colour + (pattern === null ? '' : tag('rect', { ...place, fill: pattern }));
}

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

function boxOf(element: Element, { left, top }: Collected): Box | null {
  const { left: x, top: y, width, height } = element.getBoundingClientRect();
  return width > 0 && height > 0 ? { x: x - left, y: y - top, width, height } : null;
}

/** A legend's scale of colours, or a hatch: the two gradients that there are. */
function patternOf(image: string, box: Box, { defs }: Collected): string | null {
  const colours = image.match(/rgba?\([^)]*\)|color\([^)]*\)/g) ?? [];
  if (!image.includes('linear-gradient') || colours.length < 2) return null;
  const id = `pattern-${defs.length}`;
  if (image.startsWith('repeating')) {
    const [one, other] = [colours[0]!, colours.at(-1)!];
    const size = { width: 8.5, height: 8.5 };
    const lines = [
      tag('rect', { ...size, fill: CLEAR.test(one) ? 'none' : one }),
      tag('path', { d: 'M-1 9.5L9.5-1M-1 1L1-1M7.5 9.5L9.5 7.5', stroke: other }),
    ];
    const units = { patternUnits: 'userSpaceOnUse', ...size };
    defs.push(tag('pattern', { id, x: box.x, y: box.y, ...units }, ...lines));
  } else {
    const stops = colours.map((colour, at) =>
      tag('stop', { offset: at / (colours.length - 1), 'stop-color': colour }),
    );
    defs.push(tag('linearGradient', { id }, ...stops));
  }
  return `url(#${id})`;
}

/** One frame where all sides are alike, else a line for each side that is there. */
export function bordersOf(element: Element, style: CSSStyleDeclaration, found: Collected): string {
  const box = boxOf(element, found);
  if (box === null) return '';
  const zoom = zoomOf(element);
  const sides = SIDES.map((side) => ({
    width:
      style[`border${side}Style`] === 'none' ? 0 : parseFloat(style[`border${side}Width`]) * zoom,
    colour: style[`border${side}Color`],
    kind: style[`border${side}Style`],
  })).map((side) => (CLEAR.test(side.colour) ? { ...side, width: 0 } : side));
  const [first] = sides;
  if (sides.every(({ width }) => width === 0)) return '';
  const isAlike = sides.every(
    ({ width, colour }) => width === first!.width && colour === first!.colour,
  );
  if (isAlike) return frame(box, first!, parseFloat(style.borderTopLeftRadius) * zoom);
  return sides.map((side, at) => edge(box, side, at)).join('');
}

interface Side {
  width: number;
  colour: string;
  kind: string;
}

function frame({ x, y, width, height }: Box, side: Side, radius: number): string {
  const half = side.width / 2;
  return tag('rect', {
    x: x + half,
    y: y + half,
    width: Math.max(0, width - side.width),
    height: Math.max(0, height - side.width),
    rx: radius > half ? Math.min(radius - half, width / 2, height / 2) : null,
    fill: 'none',
    ...strokeOf(side),
  });
}

function edge({ x, y, width, height }: Box, side: Side, at: number): string {
  if (side.width === 0) return '';
  const half = side.width / 2;
  const [right, bottom] = [x + width, y + height];
  const lines = [
    { x1: x, y1: y + half, x2: right, y2: y + half },
    { x1: right - half, y1: y, x2: right - half, y2: bottom },
    { x1: x, y1: bottom - half, x2: right, y2: bottom - half },
    { x1: x + half, y1: y, x2: x + half, y2: bottom },
  ];
  return tag('line', { ...lines[at]!, ...strokeOf(side) });
}

function strokeOf({ width, colour, kind }: Side) {
  const dashes = kind === 'dashed' ? `${3 * width} ${2 * width}` : null;
  return { stroke: colour, 'stroke-width': width, 'stroke-dasharray': dashes };
}

/** The corner that marks what an edit changed. */
export function cornerOf(element: Element, found: Collected): string {
  if (!element.classList.contains('changed')) return '';
  const box = boxOf(element, found);
  const { borderTopWidth, borderTopColor: fill } = getComputedStyle(element, '::after');
  const side = 2 * parseFloat(borderTopWidth) * zoomOf(element);
  if (box === null || !(side > 0)) return '';
  const right = box.x + box.width;
  return tag('path', { d: `M${right - side} ${box.y}H${right}V${box.y + side}Z`, fill });
}
