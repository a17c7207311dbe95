/** SVG as text: elements and their attributes, whatever the words in them. */

type Value = string | number | null | undefined;

/** `tag('rect', { x: 1, rx: null }, …)`: attributes without a value are left out. */
export function tag(name: string, attributes: Record<string, Value>, ...inside: string[]): string {
  const written = Object.entries(attributes)
    .flatMap(([key, value]): [string, Value][] => painted(key, value))
    .filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(
      ([key, value]) => ` ${key}="${escaped(typeof value === 'number' ? round(value) : value!)}"`,
    )
    .join('');
  const content = inside.join('');
  return content === '' ? `<${name}${written}/>` : `<${name}${written}>${content}</${name}>`;
}

const PAINTS = ['fill', 'stroke', 'stop-color'];

/** A colour that shines through is two attributes: SVG 1.1, which drawing programs read, has no rgba. */
function painted(key: string, value: Value): [string, Value][] {
  if (!PAINTS.includes(key) || typeof value !== 'string') return [[key, value]];
  const rgba = /^rgba\((\d+, \d+, \d+), ([\d.]+)\)$/.exec(value);
  const srgb = /^color\(srgb ([\d.]+) ([\d.]+) ([\d.]+)(?: \/ ([\d.]+))?\)$/.exec(value);
  const opacity = key === 'stop-color' ? 'stop-opacity' : `${key}-opacity`;
  if (rgba !== null) {
    return [
      [key, `rgb(${rgba[1]})`],
      [opacity, rgba[2]],
    ];
  }
  if (srgb === null) return [[key, value]];
  const [red, green, blue] = srgb.slice(1, 4).map((share) => Math.round(255 * Number(share)));
  return [
    [key, `rgb(${red}, ${green}, ${blue})`],
    [opacity, srgb[4]],
  ];
}

/** Characters that XML does not have become a mark; the three that it reads as its own are named. */
export function escaped(text: string | number): string {
  return String(text)
    .replace(/[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu, '\ufffd')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('"', '&quot;');
}

/** A hundredth of a pixel is enough. */
export function round(number: number): string {
  return String(Math.round(number * 100) / 100);
}

/** A whole file. */
export function svgFile(
  { width, height }: { width: number; height: number },
  background: string,
  style: string,
  ...inside: string[]
): string {
  const ground = tag('rect', { width: '100%', height: '100%', fill: background });
  return (
    '<?xml version="1.0" encoding="UTF-8"?>\n' +
    tag(
      'svg',
      {
        xmlns: 'http://www.w3.org/2000/svg',
        'xmlns:xlink': 'http://www.w3.org/1999/xlink',
        width,
        height,
        viewBox: `0 0 ${round(width)} ${round(height)}`,
      },
      style === '' ? '' : tag('style', {}, escaped(style)),
      ground,
      ...inside,
    ) +
    '\n'
  );
}
