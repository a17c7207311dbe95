import { expect, it } from 'vitest';

import type { BranchInfo, StepInfo, TraceInfo } from '../lib/api';
import { inOtherLayers, mainSteps, nextStep, branchesTo } from '../lib/neighbours';
import { parametersKey, rowsOf, searchRows, stepsWithin } from './rows';

const step = (number: number, name: string, is_main = true): StepInfo =>
  ({
    number,
    name,
    is_main,
    symbol: null,
    op: 'matmul',
    role: name.endsWith('weight') ? 'parameter' : 'activation',
  }) as unknown as StepInfo;

const branch = (path: string, own: Partial<BranchInfo>): BranchInfo => ({
  name: path,
  path,
  kind: '',
  steps: [],
  parameters: [],
  branches: [],
  is_open: true,
  ...own,
});

const trace = {
  steps: [
    step(0, 'a.weight'),
    step(1, 'a.0.scores'),
    step(2, 'a.mask', false),
    step(3, 'a.1.scores'),
    step(4, 'out'),
  ],
  tree: branch('', {
    steps: [4],
    branches: [branch('a', { parameters: [0], steps: [1, 2, 3] })],
  }),
} as unknown as TraceInfo;

const names = (rows: ReturnType<typeof rowsOf>) =>
  rows.map((row) => (row.kind === 'step' ? row.step.name : `${row.kind} ${row.branch.path}`));

it('rows are in the order of computing, bookkeeping left out, parameters folded', () => {
  const folded = { toggled: new Map<string, boolean>(), all: false };
  expect(names(rowsOf(trace, folded))).toEqual([
    'branch a',
    'parameters a',
    'a.0.scores',
    'a.1.scores',
    'out',
  ]);
  expect(names(rowsOf(trace, { ...folded, all: true }))).toContain('a.mask');
});

it('what the reader unfolds is shown, with its place among its siblings', () => {
  const inner = trace.tree.branches[0]!;
  const toggled = new Map([[parametersKey(inner), true]]);
  const rows = rowsOf(trace, { toggled, all: false });
  expect(names(rows)).toContain('a.weight');
  expect(rows.map(({ level, position, siblings }) => [level, position, siblings])).toEqual([
    [1, 1, 2],
    [2, 1, 3],
    [3, 1, 1],
    [2, 2, 3],
    [2, 3, 3],
    [1, 2, 2],
  ]);
});

it('a search finds steps wherever they are, but only those of the tree', () => {
  expect(names(searchRows(trace, ' SCORES '))).toEqual(['a.0.scores', 'a.1.scores']);
  const pruned = { ...trace, tree: branch('', { steps: [3] }) };
  expect(names(searchRows(pruned, 'scores'))).toEqual(['a.1.scores']);
  expect(stepsWithin(trace.tree)).toEqual([4, 0, 1, 2, 3]);
});

it('neighbours are the main steps before and after, and the same step of other layers', () => {
  expect(mainSteps(trace)).toEqual([1, 3, 4]);
  expect([nextStep(trace, 1, 1), nextStep(trace, 4, 1), nextStep(trace, 3, -1)]).toEqual([
    3,
    null,
    1,
  ]);
  expect(inOtherLayers(trace, trace.steps[1]!).map(({ step: n, key }) => [n, key])).toEqual([
    [1, '0'],
    [3, '1'],
  ]);
  expect(branchesTo(trace.tree, 0).map(({ path }) => path)).toEqual(['', 'a']);
});
