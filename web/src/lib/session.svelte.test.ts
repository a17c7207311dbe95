import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { CardInfo, TraceInfo } from './api';
import { Session } from './session.svelte';
import { useSource, type Source } from './source';

/** A run of three steps; the cell of step 2 at [0, 1] is a cell of step 1. */
function trace(id: string, fields: Partial<TraceInfo> = {}): TraceInfo {
  const shapes = [
    [2, 3],
    [4, 2, 3],
    [2, 3],
  ];
  const steps = shapes.map((shape, number) => ({
    number,
    name: `step ${number}`,
    shape,
    operands: [],
  }));
  const whole = {
    id,
    root: 'run',
    parent: null,
    model: 'toy',
    text: 'a',
    edits: [],
    first: 0,
    steps,
  };
  return { ...whole, ...fields } as unknown as TraceInfo;
}

function card(step: number, index: number[]): CardInfo {
  const cell = step === 2 ? { step: 1, index: [0, ...index] } : { step, index };
  return { cell } as unknown as CardInfo;
}

const asked = {
  models: vi.fn(() => Promise.resolve([{ name: 'toy', task: 'classify' }])),
  watch: vi.fn(() => Promise.resolve(null)),
  createTrace: vi.fn(() => Promise.resolve(trace('run'))),
  trace: vi.fn((id: string) => Promise.resolve(trace(id))),
  edit: vi.fn((parent: string) =>
    Promise.resolve(trace('edited', { parent, edits: [{ step: 'step 0' }] as never })),
  ),
  equation: vi.fn((_: string, step: number, lead: number[]) => Promise.resolve({ step, lead })),
  card: vi.fn((_: string, { step, index }: { step: number; index: number[] }) =>
    Promise.resolve(card(step, index)),
  ),
  dependents: vi.fn(() => Promise.resolve([{ step: 1 }])),
  onDropped: vi.fn(),
};

async function opened(): Promise<Session> {
  const session = new Session();
  await session.loadModels();
  await session.run('toy', 'a');
  return session;
}

/** A request that is answered when the test says so. */
function later<T>(): { promise: Promise<T>; answer: (value: T) => void } {
  let answer: (value: T) => void = () => undefined;
  const promise = new Promise<T>((done) => (answer = done));
  return { promise, answer };
}

beforeEach(() => {
  vi.clearAllMocks();
  vi.stubGlobal('requestAnimationFrame', (done: () => void) => setTimeout(done, 0));
  useSource(asked as unknown as Source);
});

describe('a session', () => {
  it('shows the first step of a run, without a card', async () => {
    const session = await opened();
    expect(session.view).toBe('equation');
    expect([session.trace?.id, session.step, session.cell]).toEqual(['run', 0, null]);
    expect(session.equation).toEqual({ step: 0, lead: [] });
    expect(session.busy).toBeNull();
  });

  it('keeps leading places that fit, and counts quick steps from where it is heading', async () => {
    const session = await opened();
    await session.select(1, [9]);
    expect(session.lead).toEqual([3]);
    const first = session.select(1, [2]);
    expect(session.ahead).toEqual({ step: 1, lead: [2] });
    await first;
    await session.select(0);
    expect(session.lead).toEqual([]);
  });

  it('stays where it is when a run is refused, and says why', async () => {
    const session = await opened();
    asked.createTrace.mockRejectedValueOnce(new Error('too long'));
    expect(await session.run('toy', 'b')).toBe(false);
    expect(session.problem).toBe('too long');
    expect(session.trace?.id).toBe('run');
  });

  it('shows the newest wish, whatever comes late', async () => {
    const session = await opened();
    const slow = later<{ step: number; lead: number[] }>();
    asked.equation.mockReturnValueOnce(slow.promise);
    const first = session.select(1, [0]);
    await session.select(2);
    slow.answer({ step: 1, lead: [0] });
    await first;
    expect(session.step).toBe(2);
  });
});

describe('cards', () => {
  it('leave a trail, and go back along it', async () => {
    const session = await opened();
    await session.cards.explain({ step: 0, index: [0, 0] });
    await session.cards.explain({ step: 1, index: [3, 1, 2] });
    expect(session.trail).toEqual([{ step: 0, index: [0, 0] }]);
    expect([session.step, session.lead]).toEqual([1, [3]]);
    await session.cards.back();
    expect(session.cell).toEqual({ step: 0, index: [0, 0] });
    expect(session.trail).toEqual([]);
    await session.cards.back();
    expect(session.cell).toEqual({ step: 0, index: [0, 0] });
  });

  it('show the step that a cell of a view belongs to', async () => {
    const session = await opened();
    await session.cards.explain({ step: 2, index: [0, 1] });
    expect(session.cell).toEqual({ step: 1, index: [0, 0, 1] });
    expect([session.step, session.lead]).toEqual([1, [0]]);
  });

  it('that were asked for ahead are asked for once', async () => {
    const session = await opened();
    session.cards.anticipate({ step: 0, index: [1, 1] });
    await session.cards.explain({ step: 0, index: [1, 1] });
    expect(asked.card).toHaveBeenCalledTimes(1);
    await session.cards.explain({ step: 0, index: [1, 1] });
    expect(asked.card).toHaveBeenCalledTimes(2);
  });

  it('that are closed while they are on their way do not open', async () => {
    const session = await opened();
    const slow = later<CardInfo>();
    asked.card.mockReturnValueOnce(slow.promise);
    const explained = session.cards.explain({ step: 0, index: [0, 0] });
    session.cards.close();
    slow.answer(card(0, [0, 0]));
    await explained;
    expect(session.card).toBeNull();
  });

  it('find what was made from their cell, unless another one is looked at by then', async () => {
    const session = await opened();
    await session.cards.explain({ step: 0, index: [0, 0] });
    await session.cards.findDependents();
    expect(session.dependents).toEqual([{ step: 1 }]);
    asked.dependents.mockRejectedValueOnce(new Error('gone'));
    await session.cards.findDependents();
    expect(session.dependentsProblem).toBe('gone');
    const slow = later<{ step: number }[]>();
    asked.dependents.mockReturnValueOnce(slow.promise);
    const found = session.cards.findDependents();
    await session.cards.explain({ step: 0, index: [1, 2] });
    slow.answer([{ step: 99 }]);
    await found;
    expect(session.dependents).toBeNull();
  });
});

describe('edits', () => {
  it('make a new trace in which step, cell and trail stay, and can be undone', async () => {
    const session = await opened();
    await session.cards.explain({ step: 0, index: [0, 0] });
    await session.cards.explain({ step: 1, index: [3, 1, 2] });
    expect(await session.edits.set({ step: 0, index: [0, 0] }, Infinity)).toBe(true);
    const edits = [{ step: 'step 0', index: [0, 0], value: 'Infinity' }];
    expect(asked.edit).toHaveBeenCalledWith('run', edits, expect.anything());
    expect([session.trace?.id, session.step]).toEqual(['edited', 1]);
    expect(session.cell).toEqual({ step: 1, index: [3, 1, 2] });
    expect(session.trail).toEqual([{ step: 0, index: [0, 0] }]);
    await session.edits.undo();
    expect(session.trace?.id).toBe('run');
  });
});
