/** What scrolls: the frame of a view, or, on a small screen, the page as a whole. */

/** The nearest element around a view that has more than it shows; null where nothing scrolls. */
export function scrollerOf(view: Element): Element | null {
  for (let at: Element | null = view; at !== null; at = at.parentElement) {
    const scrolls = /auto|scroll/.test(getComputedStyle(at).overflowY);
    if (scrolls && at.scrollHeight > at.clientHeight) return at;
  }
  return null;
}

/** Scroll to a cell of a grid, unless it is in sight: then it stays where it is. */
export function bringIntoSight(cell: Element | null): void {
  if (cell === null) return;
  const { x, y, width, height } = cell.getBoundingClientRect();
  const there = document.elementFromPoint(x + width / 2, y + height / 2);
  const grid = cell.closest('[role=grid]');
  if (there === null || grid?.contains(there) !== true) cell.scrollIntoView({ block: 'nearest' });
}
