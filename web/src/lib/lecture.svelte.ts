/**
 * Lecture mode: the same page for a hall. Nothing but what is looked at, and type of 24 px and more.
 *
 * Views are enlarged as a whole (CSS `zoom`), so that each keeps its own layout: on a projector they
 * are laid out as on a small screen.
 */

/** No type of the page is smaller (`--tiny` in `app.css`), and in a lecture none is below 24 px. */
const SMALLEST_TYPE = 11.5;
const LEAST_TYPE = 24;
const LEAST = Math.ceil((10 * LEAST_TYPE) / SMALLEST_TYPE) / 10;
/** A page so small still shows something: below it, on a phone, type is smaller than 24 px. */
const ROOM = { width: 914, height: 514 };
const LITTLE_ROOM = { width: 440, height: 240 };
const LEAST_ON_A_PHONE = 1.25;

/** How much larger everything is on a screen: 2.1 times at 1080p, more on larger ones. */
export function scaleFor({ width, height }: { width: number; height: number }): number {
  const growing = Math.min(width / ROOM.width, height / ROOM.height);
  const holding = Math.min(width / LITTLE_ROOM.width, height / LITTLE_ROOM.height);
  const least = Math.min(LEAST, Math.max(LEAST_ON_A_PHONE, holding));
  return Math.round(100 * Math.max(growing, least)) / 100;
}

class Lecture {
  isOn = $state(false);
  /** The size of the window; `App` keeps it up to date. */
  screen = $state.raw({ width: 1440, height: 900 });
  readonly scale = $derived(this.isOn ? scaleFor(this.screen) : 1);
  /** How high views are, in their own pixels; 0 until they are laid out. */
  stage = $state(0);
  readonly height = $derived(this.stage || this.screen.height / this.scale);

  toggle(): void {
    this.isOn = !this.isOn;
    if (!this.isOn && document.fullscreenElement) void document.exitFullscreen();
  }

  /** Full screen and back; where a browser refuses it, the page stays as it is. */
  async toggleFullScreen(): Promise<void> {
    try {
      if (document.fullscreenElement) await document.exitFullscreen();
      else await document.documentElement.requestFullscreen();
    } catch {
      // a frame that may not, a browser without it: F11 is still there
    }
  }
}

export const lecture = new Lecture();

/** How many pixels of the screen a pixel of an element takes, which a lecture enlarges. */
export function enlargement(element: HTMLElement): number {
  return element.offsetWidth === 0
    ? 1
    : element.getBoundingClientRect().width / element.offsetWidth;
}

/** A point of the screen, in pixels of an element from its corner. */
export function pointIn(
  element: HTMLElement,
  { clientX, clientY }: { clientX: number; clientY: number },
): { x: number; y: number } {
  const { left, top } = element.getBoundingClientRect();
  const scale = enlargement(element);
  return { x: (clientX - left) / scale, y: (clientY - top) / scale };
}
