/**
 * What is done to every number of a matrix, rehearsed on made-up ones before the real ones come.
 *
 * A browser interprets code that is new to it, and each number that interpreted code touches is an
 * object of its own on the heap: the first large matrix of a page took four times as long as the
 * next, and longer still where these objects had to be collected in between. After a few short
 * rounds the loops are machine code; the pauses are for the compiler, which works beside the page.
 */

import { colour, colourTable } from './colours';
import { transpose } from './tiles';

const ROUNDS = 3;
const TURNS = 16;
const SIDE = 32;
const PAUSE_MS = 10;

/** Takes about a millisecond at a time. */
export function rehearse(rounds = ROUNDS): void {
  if (rounds === 0) return;
  setTimeout(() => {
    const scale = { kind: 'signed', limit: 1 } as const;
    const table = colourTable(scale, false);
    const values = everyKindOfNumber(SIDE * SIDE);
    const pixels = new Uint32Array(values.length);
    for (let turn = 0; turn < TURNS; turn++) {
      colour(transpose(values, SIDE, SIDE), scale, table, pixels);
    }
    rehearse(rounds - 1);
  }, PAUSE_MS);
}

/** Machine code is made for what has been met; it is given up when something else comes. */
function everyKindOfNumber(count: number): Float32Array {
  const values = Float32Array.from({ length: count }, (_, i) => (4 * i) / count - 2);
  values.set([NaN, Infinity, -Infinity]);
  return values;
}
