/** How wide and how high the panels of an equation may be. */

const SIGN_WIDTH = 26;
const BRACKET_WIDTH = 16;
const CHARACTER = 8.5;
/** Between two lines of panels. */
const LINE_GAP = 12;

/** Pixels that signs between panels take: `×`, `softmax(`, `)`. */
export function signWidth(sign: string): number {
  if (/^[)\],]$/.test(sign)) return BRACKET_WIDTH;
  const wide = sign.match(/[\u3000-\u9fff]/g)?.length ?? 0; // Chinese, of twice the width
  return Math.max(SIGN_WIDTH, Math.ceil((sign.length + wide) * CHARACTER) + 6);
}

/**
 * A panel of an equation: the width at which it would show all of its numbers, the least at which
 * it can be read as a heat map, and that of the signs around it.
 */
export interface Wish {
  width: number;
  least: number;
  signs: number;
}

/**
 * Widths for panels, in lines of `available` pixels.
 *
 * All side by side at full width if they fit; else each whole, on at most `mostLines` lines; else as
 * many to a line as can be read. On a line all get the same share, if they can be read in it, and
 * what small ones leave over goes to the large ones.
 */
export function allot(available: number, wishes: readonly Wish[], mostLines = 1): number[] {
  return lines(available, wishes, mostLines).flatMap((line) => {
    return levelled(available - sum(line.map((wish) => wish.signs)), line);
  });
}

/** How many panels stand on each line. */
export function countOnLines(
  available: number,
  wishes: readonly Wish[],
  mostLines = 1,
): readonly number[] {
  return lines(available, wishes, mostLines).map(({ length }) => length);
}

/**
 * Heights for panels on their lines: a line that leaves the others their `least` is whole, and the
 * rest share what is left. `wishes` are the heights of whole panels.
 */
export function allotHeights(
  available: number,
  wishes: readonly number[],
  counts: readonly number[],
  least: readonly number[],
): number[] {
  const highest = (of: readonly number[]) =>
    counts.map((count, line) => {
      const first = sum(counts.slice(0, line));
      return Math.max(...of.slice(first, first + count));
    });
  const gaps = LINE_GAP * (counts.length - 1);
  const heights = shared(available - gaps, highest(wishes), highest(least));
  return counts.flatMap((count, line) => Array.from({ length: count }, () => heights[line]!));
}

/** Nothing grows to more than twice its size: a matrix of one number needs no more. */
const MOST_GROWTH = 2;
/** Letters can still be read a little smaller, which is better than a matrix that is cut. */
export const LEAST_GROWTH = 0.9;
const GROWTH_STEP = 0.05;
/** An equation on one line reads so much better that it may be so much smaller, for each line. */
const LINE_BREAK = 0.2;

/**
 * How much larger panels can be drawn so that all of them, whole, fill a box, on so many lines, or
 * how much smaller they must be; null where they do not fit. `heights` are those of the panels.
 */
export function largestThatFits(
  box: { width: number; height: number },
  wishes: readonly Wish[],
  heights: readonly number[],
  mostLines = Infinity,
  least = LEAST_GROWTH,
): number | null {
  let best = { growth: 0, score: 0 };
  for (let growth = MOST_GROWTH; growth > least - 0.01; growth -= GROWTH_STEP) {
    const width = box.width / growth - 1;
    if (wishes.some((wish) => wish.width + wish.signs > width)) continue;
    const counts = packed(width, wishes, (wish) => wish.width).map(({ length }) => length);
    if (counts.length > mostLines) continue;
    let first = 0;
    const height = sum(
      counts.map((count) => Math.max(...heights.slice(first, (first += count))) + LINE_GAP),
    );
    const score = growth * (1 - LINE_BREAK * (counts.length - 1));
    if (height <= box.height / growth && score > best.score) best = { growth, score };
  }
  return best.score === 0 ? null : Math.round(100 * best.growth) / 100;
}

function lines(available: number, wishes: readonly Wish[], mostLines: number): Wish[][] {
  const readable = (wish: Wish) => Math.min(wish.width, wish.least);
  // What no line has room for is a heat map anyway, and needs no line of its own.
  const whole = (wish: Wish) =>
    wish.width + wish.signs <= available ? wish.width : readable(wish);
  const uncut = packed(available, wishes, whole);
  return uncut.length <= mostLines ? uncut : packed(available, wishes, readable);
}

/** As many to a line as have at least what they need. */
function packed(
  available: number,
  wishes: readonly Wish[],
  need: (wish: Wish) => number,
): Wish[][] {
  const found: Wish[][] = [];
  let used = Infinity;
  for (const wish of wishes) {
    const least = need(wish) + wish.signs;
    if (used + least > available) {
      found.push([]);
      used = 0;
    }
    found.at(-1)?.push(wish);
    used += least;
  }
  return found;
}

/** The same width for all on a line, between the least and the most that each has a use for. */
function levelled(length: number, line: readonly Wish[]): number[] {
  const at = (level: number) =>
    line.map(({ width, least }) => Math.min(width, Math.max(least, level)));
  let [low, high] = [0, Math.max(0, length)];
  while (high - low > 0.01) {
    const level = (low + high) / 2;
    if (sum(at(level)) > length) high = level;
    else low = level;
  }
  return at(high).map((width) => Math.floor(Math.min(width, Math.max(0, length))));
}

/**
 * Equal shares of a length, except for those who wish for less, or for so little more that the
 * others keep their `least`.
 */
function shared(length: number, wishes: readonly number[], least: readonly number[]): number[] {
  const found = wishes.map(() => 0);
  let left = length;
  const open = wishes.map((_, place) => place).sort((a, b) => wishes[a]! - wishes[b]!);
  open.forEach((place, done) => {
    const others = open.slice(done + 1);
    const [wish, spare] = [wishes[place]!, left - sum(others.map((other) => least[other]!))];
    const share = Math.min(left / (others.length + 1), Math.max(least[place]!, spare));
    const size = Math.floor(wish <= spare ? wish : Math.min(wish, share));
    found[place] = size;
    left -= size;
  });
  return found;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
