/** How wide texts are: each is measured once, since they are drawn in every frame. */

const MEASURED = 100;
const MOST_KNOWN = 4000;

const widths = new Map<string, number>();
let pen: CanvasRenderingContext2D | null | undefined;

/** The width of a text in font sizes. */
export function widthOf(text: string, weight: number, family: string): number {
  const key = `${weight} ${family} ${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size >= MOST_KNOWN) widths.clear();
    width = measured(text, `${weight} ${MEASURED}px ${family}`);
    widths.set(key, width);
  }
  return width;
}

function measured(text: string, font: string): number {
  if (pen === undefined) pen = document.createElement('canvas').getContext('2d');
  if (pen === null) return 0.6 * text.length;
  pen.font = font;
  return pen.measureText(text).width / MEASURED;
}
