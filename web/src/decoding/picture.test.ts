import { describe, expect, it } from 'vitest';

import type { DecodeStep } from '../lib/api';
import { COLUMN, GAP, left, lines, moved, shown, size, visibleSteps } from './picture';
import { visible } from './why';

type Fate = DecodeStep['candidates'][number]['fate'];

function steps(...fates: Fate[][]): DecodeStep[] {
  return fates.map((step) => ({
    beams: [''],
    candidates: step.map((fate) => ({ parent: 0, fate }) as DecodeStep['candidates'][number]),
  }));
}

const ledger = steps(['kept', 'dropped', 'kept'], ['ended', 'kept', 'dropped']);

describe('the picture of a ledger', () => {
  it('draws dropped candidates only if they are asked for, without gaps', () => {
    const kept = shown(ledger, false);
    expect(kept.map((column) => column.map(({ spot, row }) => [spot.place, row]))).toEqual([
      [
        [0, 0],
        [2, 1],
      ],
      [
        [0, 0],
        [1, 1],
      ],
    ]);
    expect(shown(ledger, true).map((column) => column.length)).toEqual([3, 3]);
  });

  it('is as large as its columns', () => {
    const columns = shown(ledger, true);
    expect(size(columns).width - size(columns.slice(1)).width).toBe(COLUMN + GAP);
    expect(size(columns).height).toBeGreaterThan(size(shown(ledger, false)).height);
    expect(size([])).toEqual({ width: left(0), height: size(shown(steps(['kept']), true)).height });
  });

  it('knows which columns are in sight, with two more on each side', () => {
    expect(visibleSteps(0, 400, 50)[0]).toBe(0);
    const [first, last] = visibleSteps(left(20), 2 * (COLUMN + GAP), 50);
    expect([first, last]).toEqual([18, 24]);
    expect(visibleSteps(left(49), 1e6, 50)[1]).toBe(50);
  });

  it('has a line for each candidate, those of the best result on top', () => {
    const columns = shown(ledger, true);
    const drawn = lines(ledger, columns, new Set(['0:0', '1:1']), [0, 2]);
    expect(drawn).toHaveLength(6);
    expect(drawn.slice(-2).map(({ id }) => id)).toEqual(['0:0', '1:1']);
    expect(
      drawn
        .filter(({ isDropped }) => isDropped)
        .map(({ id }) => id)
        .sort(),
    ).toEqual(['0:1', '1:2']);
    expect(lines(ledger, columns, new Set(), [1, 2])).toHaveLength(3);
  });
});

describe('keys in the picture', () => {
  const columns = shown(steps(['kept', 'kept', 'kept'], ['kept']), true);

  it('go to the nearest candidate of another step, and stay inside', () => {
    expect(moved('ArrowRight', columns, { step: 0, place: 2 })).toEqual({ step: 1, place: 0 });
    expect(moved('ArrowDown', columns, { step: 0, place: 2 })).toEqual({ step: 0, place: 2 });
    expect(moved('End', columns, { step: 0, place: 1 })).toEqual({ step: 1, place: 0 });
    expect(moved('ArrowRight', columns, { step: 1, place: 0 })).toBeNull();
    expect(moved('q', columns, { step: 0, place: 0 })).toBeNull();
  });
});

describe('a token', () => {
  it('shows its spaces', () => {
    expect(visible(' dog')).toBe('␣dog');
    expect(visible('a\n')).toBe('a⏎');
    expect(visible('')).toBe('∅');
  });
});
