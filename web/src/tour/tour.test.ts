import { describe, expect, it, vi } from 'vitest';

import type { Session } from '../lib/session.svelte';
import { STOPS, Tour } from './tour.svelte';

function session(isThere = true): Session {
  return { canRun: () => true, run: vi.fn(() => Promise.resolve(isThere)) } as unknown as Session;
}

describe('the tour', () => {
  it('counts quick steps from where it is heading', async () => {
    const tour = new Tour();
    const shown = session();
    await tour.start(shown);
    expect(tour.at).toBe(0);
    void tour.next(shown);
    await tour.next(shown);
    expect(tour.at).toBe(2);
    await tour.back(shown);
    expect(tour.at).toBe(1);
  });

  it('ends after its last stop, and where the toy cannot be run', async () => {
    const tour = new Tour();
    await tour.go(session(), STOPS.length - 1);
    expect(tour.stop?.target).toBe('form');
    expect(tour.taken).toBe(true);
    await tour.next(session());
    expect(tour.at).toBeNull();
    await tour.start(session(false));
    expect(tour.at).toBeNull();
  });

  it('sets the one number to 0 that the answer hangs on', () => {
    const edited = STOPS.filter(({ edits }) => edits.length > 0);
    expect(edited.map(({ text }) => text)).toEqual(['tour.edit', 'tour.turn']);
    expect(edited[0]?.edits[0]).toMatchObject({ index: [0, 0, 3, 2], value: 0 });
  });
});
