/** The terms of a sum, each with the plus before it. Pure. */

import type { Piece } from '../lib/api';

/** `exp(`, 1, ` − 6) + exp(`, 2, ` − 6)` → [`exp(`, 1, ` − 6)`], [`+ exp(`, 2, ` − 6)`]. */
export function termsOf(pieces: readonly Piece[]): Piece[][] {
  const terms: Piece[][] = [];
  for (const piece of pieces) {
    const parts = piece.cell ? [piece.text] : piece.text.split(/ (?=\+ )/);
    parts.forEach((text, n) => {
      if (n > 0 || terms.length === 0) terms.push([]);
      if (text !== '') terms.at(-1)!.push({ ...piece, text });
    });
  }
  return terms;
}
