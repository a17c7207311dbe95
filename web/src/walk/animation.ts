/**
 * A moving drawing stopped at a beat. The drawing is shown as a picture, so the page cannot reach
 * into it: the class `gf-at-3` on the SVG makes its own style show the third beat.
 */

const BEAT_SECONDS = 1.4;
/** Beats for which the finished figure is shown before it starts again. */
const REST = 2;

/** How many beats a drawing has; 0 if nothing moves. */
export function beatsOf(svg: string): number {
  return Number(/<svg [^>]*class="gf gf-(\d+)"/.exec(svg)?.[1] ?? 0);
}

/** The drawing on a clear ground; at a beat, or moving where `at` is null. */
export function drawingAt(svg: string, at: number | null): string {
  const classes = at === null ? 'gf gf-clear' : `gf gf-clear gf-at-${at}`;
  return svg.replace('class="gf', `class="${classes}`);
}

/** The beat that a drawing shows after it has run for some seconds. */
export function beatAfter(seconds: number, beats: number): number {
  const into = seconds % ((beats + REST) * BEAT_SECONDS);
  return Math.min(beats, Math.floor(into / BEAT_SECONDS) + 1);
}
