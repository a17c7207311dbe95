/** How wide the panels of an equation may be. */

export const SIGN_WIDTH = 36;
const NARROWEST = 232;

/**
 * Widths for panels that would like to be `wishes` wide, in lines of `available` pixels.
 *
 * All side by side at full width if they fit; otherwise as many to a line as can be read, each
 * with an equal share, and what small ones leave over goes to the large ones of a single line.
 */
export function allot(available: number, wishes: readonly number[]): number[] {
  const count = wishes.length;
  const perLine = Math.floor((available + SIGN_WIDTH) / (NARROWEST + SIGN_WIDTH));
  const narrow = wishes.filter((wish) => wish <= NARROWEST).length;
  const total = sum(wishes) + (count - 1) * SIGN_WIDTH;
  if (total <= available) return [...wishes];
  if (perLine + Math.floor(narrow / 2) < count) {
    const abreast = Math.max(1, Math.min(perLine, count));
    const share = (available - (abreast - 1) * SIGN_WIDTH) / abreast;
    return wishes.map((wish) =>
      Math.floor(Math.min(wish, Math.max(share, Math.min(NARROWEST, available)))),
    );
  }
  return shared(available - (count - 1) * SIGN_WIDTH, wishes);
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
