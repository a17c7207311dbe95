/**
 * Colouring, rehearsed on made-up numbers before there are real ones.
 *
 * A browser interprets code that is new to it, and each number that interpreted code touches is an
 * object of its own on the heap: the first large matrix of a page took four times as long as the
 * second, and longer still when a third of a million such objects had to be collected in between.
 * After a few short rounds the loop is machine code; the pauses are for the compiler, which works
 * beside the page.
 */

import { colour, colourTable } from './colours';

const ROUNDS = 3;
const TURNS = 16;
const NUMBERS = 1024;
const PAUSE_MS = 10;

/** Takes less than a millisecond at a time. */
export function rehearseColouring(rounds = ROUNDS): void {
  if (rounds === 0) return;
  setTimeout(() => {
    const scale = { kind: 'signed', limit: 1 } as const;
    const table = colourTable(scale, false);
    const values = everyKindOfNumber();
    const pixels = new Uint32Array(NUMBERS);
    for (let turn = 0; turn < TURNS; turn++) colour(values, scale, table, pixels);
    rehearseColouring(rounds - 1);
  }, PAUSE_MS);
}

/** Machine code is made for what has been met: what is not is interpreted again when it comes. */
function everyKindOfNumber(): Float32Array {
  const values = Float32Array.from({ length: NUMBERS }, (_, i) => (4 * i) / NUMBERS - 2);
  values.set([NaN, Infinity, -Infinity]);
  return values;
}
