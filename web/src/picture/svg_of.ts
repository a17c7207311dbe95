/**
 * A part of the page as an SVG file: boxes, lines and real text at the places where they stand, so
 * that other programs can open it; canvases as vectors where they can be drawn again, else as images.
 *
 * Only what our pages consist of is known here: no filters, no shadows, no 3D.
 */

import { backgroundOf, bordersOf, cornerOf } from './boxes';
import { fontFaces } from './fonts';
import { escaped, svgFile, tag } from './svg_text';
import { textsOf } from './texts';
import { VectorCanvas } from './vector_canvas';
import { vectors } from './vectors';

/** What is for hands and screen readers, not for a picture. */
const LEFT_OUT = '.hidden-visually, .katex-mathml, .screen-only, [data-unpictured], input, select';

export interface Picture {
  width: number;
  height: number;
  svg: string;
}

/** What a walk over the page collects beside the drawing itself. */
export interface Collected {
  /** Where the left upper corner of the picture is on the screen. */
  left: number;
  top: number;
  defs: string[];
  /** Families, weights and styles of the type that was used. */
  fonts: Set<string>;
}

/** The picture of an element as it is on the screen now, with a margin. */
export async function svgOf(root: HTMLElement, margin = 16): Promise<Picture> {
  const { left, top, width, height } = root.getBoundingClientRect();
  const found = { left: left - margin, top: top - margin, defs: [], fonts: new Set<string>() };
  const drawn = draw(root, found);
  const size = { width: width + 2 * margin, height: height + 2 * margin };
  const defs = tag('defs', {}, ...(found.defs as string[]));
  const faces = await fontFaces(found.fonts);
  return { ...size, svg: svgFile(size, groundOf(root), faces, defs, drawn) };
}

/** The colour behind an element: of the first around it that has one. */
function groundOf(element: Element | null): string {
  for (let at = element; at !== null; at = at.parentElement) {
    const { backgroundColor } = getComputedStyle(at);
    if (!/^rgba\(.*, 0\)$|^transparent$/.test(backgroundColor)) return backgroundColor;
  }
  return '#fff';
}

function draw(element: Element, found: Collected): string {
  const style = getComputedStyle(element);
  if (element.matches(LEFT_OUT) || isUnseen(style) || isMereButton(element)) return '';
  if (element instanceof HTMLCanvasElement) return drawCanvas(element, found);
  if (element instanceof HTMLImageElement) return drawImage(element, found);
  if (element instanceof SVGSVGElement) return drawSvg(element, found);
  const parts = [backgroundOf(element, style, found), bordersOf(element, style, found)];
  for (const node of element.childNodes) {
    if (node instanceof Element) parts.push(draw(node, found));
    else if (node instanceof Text) parts.push(...textsOf(node, element, style, found));
  }
  parts.push(cornerOf(element, found));
  const inside = parts.join('');
  if (inside === '') return '';
  const opacity = style.opacity === '1' ? null : style.opacity;
  const clip = isCut(element, style) ? clipTo(element, found) : null;
  return opacity === null && clip === null
    ? inside
    : tag('g', { opacity, 'clip-path': clip }, inside);
}

function isUnseen({ display, visibility, opacity }: CSSStyleDeclaration): boolean {
  return display === 'none' || visibility === 'hidden' || opacity === '0';
}

/** A button that has but an icon is for a pointer. */
function isMereButton(element: Element): boolean {
  return element instanceof HTMLButtonElement && element.textContent.trim() === '';
}

function isCut(element: Element, { overflowX, overflowY }: CSSStyleDeclaration): boolean {
  return (
    (overflowX !== 'visible' && element.scrollWidth > element.clientWidth) ||
    (overflowY !== 'visible' && element.scrollHeight > element.clientHeight)
  );
}

function clipTo(element: Element, { left, top, defs }: Collected): string {
  const box = element.getBoundingClientRect();
  const id = `clip-${defs.length}`;
  const { width, height } = box;
  defs.push(
    tag('clipPath', { id }, tag('rect', { x: box.left - left, y: box.top - top, width, height })),
  );
  return `url(#${id})`;
}

function drawCanvas(canvas: HTMLCanvasElement, found: Collected): string {
  const box = canvas.getBoundingClientRect();
  const [x, y] = [box.left - found.left, box.top - found.top];
  const again = vectors.get(canvas);
  if (again !== undefined) {
    const vector = new VectorCanvas();
    again(vector as unknown as CanvasRenderingContext2D);
    const scale = box.width / (canvas.clientWidth || 1);
    return tag('g', { transform: `translate(${x} ${y})scale(${scale})` }, ...vector.parts);
  }
  if (canvas.width === 0 || canvas.height === 0) return '';
  const style = 'image-rendering:pixelated';
  const behind = backgroundOf(canvas, getComputedStyle(canvas), found);
  return behind + tag('image', { ...placed(box, found), style, 'xlink:href': canvas.toDataURL() });
}

function drawImage(image: HTMLImageElement, found: Collected): string {
  if (!image.src.startsWith('data:')) return ''; // a file that stands alone refers to nothing
  const style = `image-rendering:${getComputedStyle(image).imageRendering}`;
  return tag('image', {
    ...placed(image.getBoundingClientRect(), found),
    style,
    'xlink:href': image.src,
  });
}

function placed({ left, top, width, height }: DOMRect, found: Collected) {
  const [x, y] = [left - found.left, top - found.top];
  return { x, y, width, height, preserveAspectRatio: 'none' };
}

const PRESENTED = [
  'fill',
  'stroke',
  'stroke-width',
  'stroke-dasharray',
  'stroke-linecap',
  'stroke-linejoin',
  'opacity',
  'fill-opacity',
  'stroke-opacity',
  'font-family',
  'font-size',
  'font-weight',
  'text-anchor',
] as const;
const PLAIN = ['none', 'normal', 'auto', '1', 'butt', 'miter', 'start'];

/** A drawing of the page: its elements as they are, its style sheet's words written into them. */
function drawSvg(svg: SVGSVGElement, found: Collected): string {
  const box = svg.getBoundingClientRect();
  const { width, height } = box;
  const [x, y] = [box.left - found.left, box.top - found.top];
  const own = [svg.width.baseVal.value, svg.height.baseVal.value];
  const viewBox = svg.getAttribute('viewBox') ?? `0 0 ${own[0]} ${own[1]}`;
  const ratio = svg.getAttribute('preserveAspectRatio');
  const attributes = { x, y, width, height, viewBox, preserveAspectRatio: ratio };
  return tag('svg', attributes, ...[...svg.children].map(copied));
}

function copied(element: Element): string {
  const style = getComputedStyle(element);
  if (style.display === 'none') return '';
  const own: Record<string, string> = {};
  for (const { name, value } of element.attributes) {
    if (!/^(class|style|on.*|data-.*|aria-.*)$/.test(name)) own[name] = value;
  }
  for (const name of PRESENTED) {
    const value = style.getPropertyValue(name);
    const isPlain = PLAIN.includes(value) && !(name === 'fill' && value === 'none');
    if (value !== '' && !isPlain) own[name] = value;
  }
  const inside = [...element.childNodes].map((node) =>
    node instanceof Element ? copied(node) : escaped(node.textContent ?? ''),
  );
  return tag(element.tagName, own, ...inside);
}
