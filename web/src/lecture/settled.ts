/** Until the page shows all of what it is about to show. */

import { painted } from '../lib/frames';
import type { Session } from '../lib/session.svelte';
import { traffic } from '../lib/source';

/** As in the tests of the page: what is computed, fetched or not there yet. */
const WAITING = '[role=progressbar], [aria-busy=true], .cells [role=gridcell]:not([data-value])';
const EACH_MS = 60;
/** So often in a row nothing may be missing: one answer leads to the next question. */
const TIMES = 3;
const LONGEST_MS = 30_000;

export async function settled(session: Session): Promise<void> {
  const isBusy = () => session.isVisiting || session.busy !== null || traffic.pending > 0;
  const end = Date.now() + LONGEST_MS;
  for (let calm = 0; calm < TIMES && Date.now() < end;) {
    await new Promise((done) => setTimeout(done, EACH_MS));
    calm = isBusy() || document.querySelector(WAITING) !== null ? 0 : calm + 1;
  }
  await document.fonts.ready;
  await painted();
}
