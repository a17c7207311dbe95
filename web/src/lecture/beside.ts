/** Where a card lies so that its cell can be seen. */

const GAP = 10;
/** A card below the equation needs so much of the view's height. */
const LEAST_BELOW = 0.36;
/** A card from below, in a view that is higher than wide, has so much of it. */
const SHEET = 0.45;

interface Seen {
  view: { width: number; height: number };
  /** The left and right edge of the cell, if it is on the screen. */
  cell: { left: number; right: number } | null | undefined;
  /** Where what is looked at ends. */
  bottom: number;
  /** The width of a card that lies beside a cell. */
  card: number;
}

export type CardPlace = { left: number } | { top: number };

/**
 * Below everything where there is room; else right of the cell, else left of it, else at the edge
 * that the cell is further away from. In pixels of the view.
 */
export function placeCard({ view, cell, bottom, card }: Seen): CardPlace {
  if (view.height - bottom >= LEAST_BELOW * view.height) return { top: bottom + GAP };
  if (view.height > view.width) return { top: (1 - SHEET) * view.height };
  const rightmost = view.width - card - GAP;
  if (!cell || cell.right + GAP <= rightmost) return { left: rightmost };
  if (cell.left - GAP - card >= GAP) return { left: GAP };
  return { left: view.width - cell.right >= cell.left ? rightmost : GAP };
}
