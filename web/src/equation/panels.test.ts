import { describe, expect, it } from 'vitest';

import type { PanelInfo, TraceInfo } from '../lib/api';
import {
  drawnAt,
  drawnLabels,
  drawnRegion,
  drawnShape,
  grouped,
  indexOf,
  isInSlice,
} from './panels';

function panel(fields: Partial<PanelInfo>): PanelInfo {
  return {
    shape: [2, 3],
    lead: [],
    transposed: false,
    rows: null,
    columns: null,
    ...fields,
  } as PanelInfo;
}

describe('a panel', () => {
  it('is drawn as rows and columns, whatever its shape', () => {
    expect(drawnShape(panel({ shape: [] }))).toEqual([1, 1]);
    expect(drawnShape(panel({ shape: [5] }))).toEqual([1, 5]);
    expect(drawnShape(panel({ shape: [7, 2, 3] }))).toEqual([2, 3]);
    expect(drawnShape(panel({ shape: [2, 3], transposed: true }))).toEqual([3, 2]);
  });

  it.each([
    panel({ shape: [5] }),
    panel({ shape: [2, 3] }),
    panel({ shape: [4, 2, 3], lead: [3] }),
    panel({ shape: [4, 2, 3], lead: [3], transposed: true }),
  ])('finds each drawn cell again: $shape, turned: $transposed', (one) => {
    const [rows, columns] = drawnShape(one);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const index = indexOf(one, [row, column]);
        expect(index).toHaveLength(one.shape.length);
        expect(drawnAt(one, index)).toEqual([row, column]);
      }
    }
  });

  it('shows one slice: cells and regions of another are not in it', () => {
    const one = panel({ shape: [4, 2, 3], lead: [3] });
    expect(drawnAt(one, [2, 0, 0])).toBeNull();
    const region = { operand: null, step: 0, rows: [0, 1], columns: [2, 2] } as const;
    expect(isInSlice(one, { ...region, lead: [3], rows: [0, 1], columns: [2, 2] })).toBe(true);
    expect(isInSlice(one, { ...region, lead: [2], rows: [0, 1], columns: [2, 2] })).toBe(false);
  });

  it('turns regions and labels over with it', () => {
    const one = panel({ transposed: true, rows: 0, columns: 1 });
    const region = { operand: null, step: 0, lead: [], rows: [0, 1], columns: [2, 2] };
    expect(drawnRegion(one, region as never)).toEqual({ rows: [2, 2], columns: [0, 1] });
    const trace = {
      labels: [
        ['I', 'am'],
        ['x', 'y', 'z'],
      ],
    } as unknown as TraceInfo;
    expect(drawnLabels(one, trace)).toEqual([trace.labels[1], trace.labels[0]]);
    expect(drawnLabels(panel({ rows: 0 }), trace)).toEqual([trace.labels[0], null]);
  });
});

describe('an equation', () => {
  it('keeps signs with the panels that they belong to', () => {
    const [s, a] = [panel({ title: 'S' }), panel({ title: 'A' })];
    expect(grouped(['softmax(', s, ')', '=', a])).toEqual([
      { before: ['softmax('], panel: s, after: [')'] },
      { before: ['='], panel: a, after: [] },
    ]);
    expect(grouped([s, '÷ 2'])).toEqual([{ before: [], panel: s, after: ['÷ 2'] }]);
    expect(grouped([])).toEqual([]);
  });
});
