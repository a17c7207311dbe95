/** Where a card lies so that its cell can be seen. */

const GAP = 10;
/** A card below what it would cover needs so much of the view's height. */
const LEAST_BELOW = 0.36;
/** A card from below, in a view that is higher than wide, has so much of it. */
const SHEET = 0.45;
/** From the upper edge of the view to a card that covers nothing there. */
export const EDGE = 8;

interface Span {
  left: number;
  right: number;
}

interface Seen {
  view: { width: number; height: number };
  /** The left and right edge of the cell, if it is on the screen. */
  cell: Span | null | undefined;
  /** The matrices of the equation: where each ends, and whether the cell is in it. */
  panels: readonly (Span & { bottom: number; isOwn: boolean })[];
  /** Where what is looked at ends. */
  bottom: number;
  /** The width of a card that lies beside a cell. */
  card: number;
}

/** Without a left edge it is as wide as the view. */
export interface CardPlace {
  left?: number;
  top: number;
}

/**
 * Below everything where there is room; else right of the cell, else left of it, else at the edge
 * that the cell is further away from; there below the matrices of the lines above, where there is
 * room. What it may cover of the cell's own matrix are numbers beside the cell. In pixels of the view.
 */
export function placeCard({ view, cell, panels, bottom, card }: Seen): CardPlace {
  const hasRoom = (end: number) => view.height - end >= LEAST_BELOW * view.height;
  if (hasRoom(bottom)) return { top: bottom + GAP };
  if (view.height > view.width) return { top: (1 - SHEET) * view.height };
  const left = leftOf(view.width - card - GAP, cell, card, view.width);
  const covers = (span: Span) => span.right > left && span.left < left + card;
  const ends = panels
    .filter((panel) => covers(panel) && (!panel.isOwn || !cell || covers(cell)))
    .map((panel) => panel.bottom);
  const lowest = Math.max(0, ...ends);
  return { left, top: ends.length > 0 && hasRoom(lowest) ? lowest + GAP : EDGE };
}

function leftOf(rightmost: number, cell: Seen['cell'], card: number, width: number): number {
  if (!cell || cell.right + GAP <= rightmost) return rightmost;
  if (cell.left - GAP - card >= GAP) return GAP;
  return width - cell.right >= cell.left ? rightmost : GAP;
}
