import { flushSync } from 'svelte';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { Grid, type MatrixProps } from './grid.svelte';
import { store } from './store';
import type { MatrixPlace, Numbers } from './tiles';
import { EXACT_RUNG } from './viewport';

const fetched = vi.hoisted(() => vi.fn<(place: MatrixPlace) => Promise<Numbers>>());
vi.mock('./store', async () => {
  const { TileStore } = await import('./tiles');
  const numbers = (values: Numbers) => ({ values, unwritten: null });
  return { store: new TileStore((place) => fetched(place).then(numbers)) };
});

let traces = 0;

/** A matrix of a trace of its own: the store is shared, as it is on the page. */
function matrix(fields: Partial<MatrixProps> = {}): MatrixProps {
  const trace = `t${traces++}`;
  return {
    place: { trace, step: 0, operand: null, lead: [], transposed: false },
    before: null,
    rows: 3,
    columns: 2,
    rowLabels: null,
    columnLabels: null,
    scale: null,
    room: { width: 400, height: 300 },
    ...fields,
  };
}

async function loaded(props: MatrixProps): Promise<Grid> {
  const grid = new Grid(() => props);
  grid.load();
  await vi.waitFor(() =>
    expect(grid.tiles.length + Number(grid.problem !== null)).toBeGreaterThan(0),
  );
  return grid;
}

beforeEach(() => {
  fetched.mockReset();
  fetched.mockImplementation(() => Promise.resolve(Float32Array.from([1, 2, 3, 4, 5, 6])));
});

describe('a small matrix', () => {
  it('starts with exact numbers, all in sight, and has its values once they are fetched', async () => {
    const props = matrix();
    const grid = new Grid(() => props);
    expect(grid.isExact).toBe(true);
    expect(grid.window).toEqual({ top: 0, bottom: 3, left: 0, right: 2 });
    expect(grid.valueAt(0, 0)).toBeUndefined();
    grid.load();
    await vi.waitFor(() => expect(grid.valueAt(2, 1)).toBe(6));
    expect(grid.overflows).toEqual({ x: false, y: false });
    expect(grid.frame.width).toBe(grid.headWidth + grid.box.width);
  });

  it('is fetched once', async () => {
    const grid = await loaded(matrix());
    grid.load();
    flushSync();
    expect(fetched).toHaveBeenCalledTimes(1);
  });

  it('says why its numbers are missing', async () => {
    fetched.mockRejectedValue(new Error('gone'));
    const grid = await loaded(matrix());
    expect(grid.problem).toBe('gone');
  });
});

describe('columns of numbers', () => {
  it('are as wide as their labels, as far as all of them fit then', async () => {
    const columnLabels = ['not', '<unknown>'];
    const roomy = await loaded(matrix({ columnLabels }));
    expect(roomy.sizes.width).toBe(9 * 7 + 10);
    expect(roomy.columnWidths).toEqual({ shortest: 40, usual: 9 * 7 + 10 });
    const tight = await loaded(matrix({ columnLabels, room: { width: 140, height: 300 } }));
    expect(tight.sizes.width).toBe(59);
  });
});

describe('zooming', () => {
  it('goes rung by rung, stays on the ladder, and comes back to what fits', async () => {
    const grid = await loaded(matrix({ rows: 200, columns: 200 }));
    const fitted = grid.rung;
    expect(grid.isFitted).toBe(true);
    grid.zoom(1, 0, 0);
    expect(grid.rung).toBe(fitted + 1);
    for (let n = 0; n < 2 * EXACT_RUNG; n++) grid.zoom(1, 0, 0);
    expect(grid.rung).toBe(EXACT_RUNG);
    for (let n = 0; n < 2 * EXACT_RUNG; n++) grid.zoom(-1, 0, 0);
    expect(grid.rung).toBe(grid.lowest);
    grid.fit();
    expect(grid.rung).toBe(fitted);
  });

  it('keeps the cell under the pointer', async () => {
    const grid = await loaded(matrix({ rows: 500, columns: 500 }));
    grid.zoom(1, 0, 0);
    const before = { ...grid.sizes };
    grid.follow(100, 100);
    const cell = (grid.scroll.x + 30) / before.width;
    const scroll = grid.zoom(1, 30, 40);
    expect((scroll.x + 30) / grid.sizes.width).toBeCloseTo(cell);
  });

  it('does not go below a pixel per number where all tiles would be fetched for it', () => {
    const grid = new Grid(() => matrix({ rows: 20_000, columns: 20_000 }));
    expect(grid.sizes.width).toBe(1);
    grid.zoom(-1, 0, 0);
    expect(grid.sizes.width).toBe(1);
  });

  it('keeps showing numbers when they get more digits', async () => {
    const grid = await loaded(matrix());
    const short = grid.digits;
    grid.toggleDigits();
    expect(grid.digits).toBeGreaterThan(short);
    expect(grid.isExact).toBe(true);
    grid.toggleDigits();
    expect(grid.digits).toBe(short);
  });
});

describe('scrolling', () => {
  it('ends at the last cell, and asks for the tiles that come into sight', async () => {
    const props = matrix({ rows: 2000, columns: 2000 });
    fetched.mockImplementation(() => Promise.resolve(new Float32Array(2 ** 19)));
    const grid = await loaded(props);
    grid.showExact();
    grid.follow(1e9, 1e9);
    expect(grid.scroll.x).toBe(grid.content.width - grid.box.width);
    expect(grid.window.bottom).toBe(2000);
    const asked = fetched.mock.calls.length;
    grid.load();
    expect(fetched.mock.calls.length).toBeGreaterThan(asked);
    expect(store.peek(props.place, 0, 0)).toBeDefined();
  });
});

describe('a matrix after edits', () => {
  it('knows which numbers differ, NaN being equal to NaN', async () => {
    const props = matrix({ rows: 1, columns: 3 });
    const before = { ...props.place, trace: 'before' };
    fetched.mockImplementation(({ trace }) =>
      Promise.resolve(Float32Array.from(trace === 'before' ? [1, 2, NaN] : [1, 7, NaN])),
    );
    const grid = await loaded({ ...props, before });
    await vi.waitFor(() => expect(grid.view.isChanged).not.toBeNull());
    const { isChanged } = grid.view;
    expect([0, 1, 2].map((column) => isChanged?.(0, column))).toEqual([false, true, false]);
    expect(grid.valueBefore(0, 1)).toBe(2);
    expect(grid.valueBefore(0, 0)).toBeUndefined();
  });

  it('marks nothing where there were none', async () => {
    expect((await loaded(matrix())).view.isChanged).toBeNull();
  });
});
