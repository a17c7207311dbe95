/** SVG as text: elements and their attributes, whatever the words in them. */

type Value = string | number | null | undefined;

/** `tag('rect', { x: 1, rx: null }, …)`: attributes without a value are left out. */
export function tag(name: string, attributes: Record<string, Value>, ...inside: string[]): string {
  const written = Object.entries(attributes)
    .filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(
      ([key, value]) => ` ${key}="${escaped(typeof value === 'number' ? round(value) : value!)}"`,
    )
    .join('');
  const content = inside.join('');
  return content === '' ? `<${name}${written}/>` : `<${name}${written}>${content}</${name}>`;
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
