/** Where a card lies so that its cell can be seen. */

const GAP = 10;
/** A card below what it would cover needs so much of the view's height. */
const LEAST_BELOW = 0.36;
/** A card from below, in a view that is higher than wide, has so much of it. */
const SHEET = 0.45;
/** A card narrower than so much of its usual width cannot be read. */
const NARROWEST = 0.65;
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

/** Without a left edge it is as wide as the view; a width is given where it is narrower than usual. */
export interface CardPlace {
  left?: number;
  top: number;
  width?: number;
}

/**
 * Below everything where there is room; else right of the cell, else left of it, else at the edge
 * that the cell is further away from; there below the matrices of the lines above, where there is
 * room. It is narrower if it fits beside the cell's own matrix then; else what it may cover there are
 * numbers beside the cell. In pixels of the view.
 */
export function placeCard({ view, cell, panels, bottom, card }: Seen): CardPlace {
  const hasRoom = (end: number) => view.height - end >= LEAST_BELOW * view.height;
  if (hasRoom(bottom)) return { top: bottom + GAP };
  if (view.height > view.width) return { top: (1 - SHEET) * view.height };
  const { left, width } = across(view.width, cell, card, panels);
  const covers = (span: Span) => span.right > left && span.left < left + width;
  const ends = panels
    .filter((panel) => covers(panel) && (!panel.isOwn || !cell || covers(cell)))
    .map((panel) => panel.bottom);
  const lowest = Math.max(0, ...ends);
  const top = ends.length > 0 && hasRoom(lowest) ? lowest + GAP : EDGE;
  return width < card ? { left, top, width } : { left, top };
}

/** Beside the cell's matrix if only a narrower card has room there, else beside the cell. */
function across(
  view: number,
  cell: Seen['cell'],
  card: number,
  panels: Seen['panels'],
): { left: number; width: number } {
  const left = leftOf(view - card - GAP, cell, card, view);
  const own = panels.find(({ isOwn }) => isOwn);
  if (!cell || own === undefined || own.right <= left || own.left >= left + card) {
    return { left, width: card };
  }
  const [before, after] = [own.left - 2 * GAP, view - own.right - 2 * GAP];
  const width = Math.min(card, Math.max(before, after));
  if (width < NARROWEST * card) return { left, width: card };
  return { left: after >= before ? view - width - GAP : GAP, width };
}

function leftOf(rightmost: number, cell: Seen['cell'], card: number, width: number): number {
  if (!cell || cell.right + GAP <= rightmost) return rightmost;
  if (cell.left - GAP - card >= GAP) return GAP;
  return width - cell.right >= cell.left ? rightmost : GAP;
}
