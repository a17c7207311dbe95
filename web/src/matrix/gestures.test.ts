import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { gestures, type Gestures } from './gestures';

/** An element that hears events, without a browser around it. */
function heard() {
  const element = new EventTarget() as HTMLElement;
  const handlers = { onzoom: vi.fn(), onpress: vi.fn(), onlongpress: vi.fn() } satisfies Gestures;
  const end = gestures(handlers)(element) as () => void;
  const send = (name: string, fields: object) => {
    const event = Object.assign(new Event(name, { cancelable: true }), fields);
    element.dispatchEvent(event);
    return event;
  };
  return { ...handlers, end, send };
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('window', globalThis);
  vi.stubGlobal('matchMedia', () => ({ matches: true }));
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe('the wheel', () => {
  it('zooms one rung per 60 units, and only with Ctrl', () => {
    const { send, onzoom } = heard();
    const plain = send('wheel', { deltaY: -300, clientX: 1, clientY: 2 });
    expect(onzoom).not.toHaveBeenCalled();
    expect(plain.defaultPrevented).toBe(false);

    const turned = { ctrlKey: true, clientX: 1, clientY: 2 };
    expect(send('wheel', { ...turned, deltaY: -40 }).defaultPrevented).toBe(true);
    expect(onzoom).not.toHaveBeenCalled();
    send('wheel', { ...turned, deltaY: -90 });
    expect(onzoom.mock.calls).toEqual([
      [1, 1, 2],
      [1, 1, 2],
    ]);
    send('wheel', { ...turned, deltaY: 70 });
    expect(onzoom).toHaveBeenLastCalledWith(-1, 1, 2);
  });
});

describe('two fingers', () => {
  const apart = (distance: number) => ({
    touches: [
      { clientX: 10, clientY: 0 },
      { clientX: 10 + distance, clientY: 0 },
    ],
  });

  it('zoom about the point between them', () => {
    const { send, onzoom } = heard();
    send('touchmove', apart(100));
    send('touchmove', apart(110));
    expect(onzoom).not.toHaveBeenCalled();
    send('touchmove', apart(130));
    expect(onzoom).toHaveBeenLastCalledWith(1, 75, 0);
    send('touchmove', apart(100));
    expect(onzoom).toHaveBeenLastCalledWith(-1, 60, 0);
  });

  it('start anew once they have been lifted, and one finger scrolls', () => {
    const { send, onzoom } = heard();
    send('touchmove', apart(100));
    send('touchend', {});
    send('touchmove', apart(300));
    const one = send('touchmove', { touches: [{ clientX: 0, clientY: 0 }] });
    expect(onzoom).not.toHaveBeenCalled();
    expect(one.defaultPrevented).toBe(false);
  });
});

describe('a press', () => {
  const finger = { pointerType: 'touch', isPrimary: true, button: 0, clientX: 5, clientY: 6 };

  it('is told at once of a mouse, and not of a finger or of another button', () => {
    const { send, onpress } = heard();
    send('pointerdown', finger);
    send('pointerdown', { pointerType: 'mouse', button: 2, clientX: 1, clientY: 1 });
    expect(onpress).not.toHaveBeenCalled();
    send('pointerdown', { pointerType: 'mouse', button: 0, clientX: 3, clientY: 4 });
    expect(onpress).toHaveBeenCalledExactlyOnceWith(3, 4);
  });

  it('is long after half a second of a finger that keeps still', () => {
    const { send, onlongpress } = heard();
    send('pointerdown', finger);
    send('pointermove', { clientX: 8, clientY: 6 });
    vi.advanceTimersByTime(549);
    expect(onlongpress).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(onlongpress).toHaveBeenCalledExactlyOnceWith(5, 6);
    expect(send('contextmenu', {}).defaultPrevented).toBe(true);
  });

  it.each([
    ['moves away', 'pointermove', { clientX: 5, clientY: 20 }],
    ['is lifted', 'pointerup', {}],
    ['is taken by a scroll', 'pointercancel', {}],
  ])('is not long where the finger %s', (_, name, fields) => {
    const { send, onlongpress } = heard();
    send('pointerdown', finger);
    send(name, fields);
    vi.advanceTimersByTime(1000);
    expect(onlongpress).not.toHaveBeenCalled();
  });

  it('is not heard any more once the element is gone', () => {
    const { send, end, onpress, onlongpress } = heard();
    send('pointerdown', finger);
    end();
    send('pointerdown', { pointerType: 'mouse', button: 0, clientX: 3, clientY: 4 });
    vi.advanceTimersByTime(1000);
    expect(onpress).not.toHaveBeenCalled();
    expect(onlongpress).not.toHaveBeenCalled();
  });
});
