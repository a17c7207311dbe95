/** How wide the panels of an equation may be. */

export const SIGN_WIDTH = 36;
const NARROWEST = 232;

/**
 * Widths for panels that would like to be `wishes` wide, in lines of `available` pixels.
 *
 * All side by side at full width if they fit; otherwise as many to a line as can be read. On a
 * line all get the same share, and what small ones leave over goes to the large ones.
 */
export function allot(available: number, wishes: readonly number[]): number[] {
  const perLine = Math.max(1, mostAbreast(available, wishes));
  const widths: number[] = [];
  for (let first = 0; first < wishes.length; first += perLine) {
    const line = wishes.slice(first, first + perLine);
    widths.push(...shared(available - leadingSign(first) - (line.length - 1) * SIGN_WIDTH, line));
  }
  return widths;
}

/** So many that each has what it wishes for, or enough to be read. */
function mostAbreast(available: number, wishes: readonly number[]): number {
  for (let count = wishes.length; count > 1; count--) {
    const lines: (readonly number[])[] = [];
    for (let at = 0; at < wishes.length; at += count) lines.push(wishes.slice(at, at + count));
    const fits = (line: readonly number[]) =>
      sum(line.map((wish) => Math.min(wish, NARROWEST))) + (line.length - 1) * SIGN_WIDTH <=
      available;
    if (lines.every(fits)) return count;
  }
  return 1;
}

/** A line that goes on begins with a sign. */
function leadingSign(first: number): number {
  return first > 0 ? SIGN_WIDTH : 0;
}

/** How many lines panels of these widths take. */
export function countLines(available: number, widths: readonly number[]): number {
  let lines = 1;
  let used = 0;
  for (const width of widths) {
    const wanted = width + (used > 0 ? SIGN_WIDTH : 0);
    if (used > 0 && used + wanted > available) {
      lines += 1;
      used = width;
    } else used += wanted;
  }
  return lines;
}

/** Equal shares of a length, except for those who wish for less. */
function shared(length: number, wishes: readonly number[]): number[] {
  const widths = wishes.map(() => 0);
  let left = length;
  const open = wishes.map((_, place) => place).sort((a, b) => wishes[a] - wishes[b]);
  open.forEach((place, done) => {
    const share = left / (open.length - done);
    widths[place] = Math.floor(Math.min(wishes[place], share));
    left -= widths[place];
  });
  return widths;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
