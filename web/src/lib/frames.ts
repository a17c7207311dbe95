/** Frames of the screen: what was set first is shown first, and what takes longer follows it. */

/** A page in the background gets no frames: it does not wait for them. */
const LONGEST_MS = 100;

/** Until the browser has shown what was set before, in a frame of its own. */
export function painted(): Promise<void> {
  return new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(() => done()));
    setTimeout(done, LONGEST_MS);
  });
}
