/** Tokens in two columns, queries and keys, and how the arrow keys move among them. */

export type Side = 'query' | 'key';

export interface Token {
  side: Side;
  place: number;
}

/** The height of a token in the picture of lines. */
export const ROW = 24;

/** Where a key takes the focus; `sizes`: how many queries and keys there are. */
export function movedToken(
  key: string,
  { side, place }: Token,
  sizes: [number, number],
): Token | null {
  const last = (of: Side) => sizes[of === 'query' ? 0 : 1] - 1;
  switch (key) {
    case 'ArrowDown':
      return { side, place: Math.min(last(side), place + 1) };
    case 'ArrowUp':
      return { side, place: Math.max(0, place - 1) };
    case 'ArrowRight':
      return { side: 'key', place: Math.min(last('key'), place) };
    case 'ArrowLeft':
      return { side: 'query', place: Math.min(last('query'), place) };
    case 'Home':
      return { side, place: 0 };
    case 'End':
      return { side, place: last(side) };
    default:
      return null;
  }
}
