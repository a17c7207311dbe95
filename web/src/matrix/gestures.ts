/** Zoom by Ctrl+wheel or pinch, presses short and long, as one attachment for an element. */

import type { Attachment } from 'svelte/attachments';

const WHEEL_PER_RUNG = 60;
const PINCH_PER_RUNG = 1.25;
const LONG_PRESS_MS = 550;
const STILL_PX = 8;

export interface Gestures {
  /** One rung closer (1) or further away (-1), about a point of the screen. */
  onzoom: (direction: 1 | -1, x: number, y: number) => void;
  /** The button goes down: most likely a click, whose second half is a tenth of a second away. */
  onpress: (x: number, y: number) => void;
  onlongpress: (x: number, y: number) => void;
}

export function gestures({ onzoom, onpress, onlongpress }: Gestures): Attachment<HTMLElement> {
  return (element) => {
    const ends = [
      wheelZoom(element, onzoom),
      pinchZoom(element, onzoom),
      press(element, onpress),
      longPress(element, onlongpress),
    ];
    return () => ends.forEach((end) => end());
  };
}

function wheelZoom(element: HTMLElement, onzoom: Gestures['onzoom']): () => void {
  let turned = 0;
  const wheel = (event: WheelEvent) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    turned += event.deltaY;
    while (Math.abs(turned) >= WHEEL_PER_RUNG) {
      onzoom(turned < 0 ? 1 : -1, event.clientX, event.clientY);
      turned -= Math.sign(turned) * WHEEL_PER_RUNG;
    }
  };
  element.addEventListener('wheel', wheel, { passive: false });
  return () => element.removeEventListener('wheel', wheel);
}

function pinchZoom(element: HTMLElement, onzoom: Gestures['onzoom']): () => void {
  let apart: number | null = null;
  const move = (event: TouchEvent) => {
    if (event.touches.length !== 2) return;
    event.preventDefault();
    const [one, other] = [event.touches[0], event.touches[1]];
    const now = Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
    apart ??= now;
    const ratio = now / apart;
    if (ratio < PINCH_PER_RUNG && ratio > 1 / PINCH_PER_RUNG) return;
    apart = now;
    const [x, y] = [(one.clientX + other.clientX) / 2, (one.clientY + other.clientY) / 2];
    onzoom(ratio > 1 ? 1 : -1, x, y);
  };
  const end = () => (apart = null);
  element.addEventListener('touchmove', move, { passive: false });
  element.addEventListener('touchend', end);
  return () => {
    element.removeEventListener('touchmove', move);
    element.removeEventListener('touchend', end);
  };
}

/** Not by touch: what begins there is a scroll as often. */
function press(element: HTMLElement, onpress: Gestures['onpress']): () => void {
  const down = (event: PointerEvent) => {
    if (event.pointerType !== 'touch' && event.button === 0) onpress(event.clientX, event.clientY);
  };
  element.addEventListener('pointerdown', down);
  return () => element.removeEventListener('pointerdown', down);
}

function longPress(element: HTMLElement, onlongpress: Gestures['onlongpress']): () => void {
  let timer = 0;
  let start: [number, number] = [0, 0];
  const stop = () => window.clearTimeout(timer);
  const down = (event: PointerEvent) => {
    stop();
    if (event.pointerType !== 'touch' || !event.isPrimary) return;
    start = [event.clientX, event.clientY];
    timer = window.setTimeout(() => onlongpress(...start), LONG_PRESS_MS);
  };
  const move = (event: PointerEvent) => {
    if (Math.hypot(event.clientX - start[0], event.clientY - start[1]) > STILL_PX) stop();
  };
  const menu = (event: Event) => {
    if (matchMedia('(pointer: coarse)').matches) event.preventDefault();
  };
  const handlers: [string, (event: never) => void][] = [
    ['pointerdown', down],
    ['pointermove', move],
    ['pointerup', stop],
    ['pointercancel', stop],
    ['contextmenu', menu],
  ];
  for (const [name, handler] of handlers) element.addEventListener(name, handler as EventListener);
  return () => {
    stop();
    for (const [name, handler] of handlers) {
      element.removeEventListener(name, handler as EventListener);
    }
  };
}
