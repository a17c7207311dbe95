import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { colour, colourTable } from './colours';
import { drawScene, pictureOf, type Scene } from './paint';
import type { Tile } from './tiles';

type Call = [name: string, ...values: unknown[]];

/** A canvas that notes what is drawn on it. */
function canvas(calls: Call[] = []) {
  const context = new Proxy({} as Record<string, unknown>, {
    get:
      (_, name: string) =>
      (...values: unknown[]) =>
        calls.push([name, ...values]),
    set: (_, name: string, value) => calls.push([`${name}=`, value]) > 0,
  });
  return { width: 0, height: 0, getContext: () => context } as unknown as HTMLCanvasElement;
}

const scale = { kind: 'signed', limit: 1 } as const;
const table = colourTable(scale, false);
const tile = (values: number[], columns: number, top = 0, left = 0): Tile => ({
  unwritten: null,
  top,
  left,
  rows: values.length / columns,
  columns,
  values: Float32Array.from(values),
});

function scene(tiles: Tile[], fields: Partial<Scene> = {}): Scene {
  return {
    enlarged: 1,
    sizes: { rows: 2, columns: 2, width: 10, height: 20 },
    scroll: { x: 0, y: 0 },
    box: { width: 20, height: 40 },
    window: { top: 0, bottom: 2, left: 0, right: 2 },
    tiles,
    isChanged: null,
    scale,
    table,
    background: 'ground',
    foreground: 'ink',
    changed: 'new',
    ...fields,
  };
}

function drawn(shown: Scene): Call[] {
  const calls: Call[] = [];
  drawScene(canvas(calls), shown);
  return calls;
}

const named = (calls: Call[], name: string) =>
  calls.filter((call) => call[0] === name).map(([, ...values]) => values);

let images: { data: Uint8ClampedArray }[] = [];

beforeEach(() => {
  images = [];
  vi.stubGlobal('window', { devicePixelRatio: 2 });
  vi.stubGlobal('document', { createElement: () => canvas() });
  vi.stubGlobal(
    'ImageData',
    class {
      data: Uint8ClampedArray;
      constructor(width: number, height: number) {
        this.data = new Uint8ClampedArray(width * height * 4);
        images.push(this);
      }
    },
  );
});

afterEach(() => {
  vi.unstubAllGlobals();
});

describe('the picture of a tile', () => {
  it('has one pixel for each number, coloured by its scale', () => {
    const one = tile([-1, 0, 0.5, 1, 2, NaN], 3);
    const picture = pictureOf(one, scale, table);
    expect([picture.width, picture.height]).toEqual([3, 2]);
    const wanted = new Uint32Array(6);
    colour(one.values, scale, table, wanted);
    expect(new Uint32Array(images[0].data.buffer)).toEqual(wanted);
  });

  it('is made once for each table and limit', () => {
    const one = tile([1, 2], 2);
    const picture = pictureOf(one, scale, table);
    expect(pictureOf(one, scale, table)).toBe(picture);
    expect(images).toHaveLength(1);
    pictureOf(one, { kind: 'signed', limit: 4 }, table);
    pictureOf(one, { kind: 'signed', limit: 4 }, colourTable(scale, true));
    expect(images).toHaveLength(3);
  });
});

describe('a scene', () => {
  it('is drawn in the pixels of the screen', () => {
    const shown = canvas();
    drawScene(shown, scene([tile([1, 2, 3, 4], 2)]));
    expect([shown.width, shown.height]).toEqual([40, 80]);
    const calls = drawn(scene([tile([1, 2, 3, 4], 2)]));
    expect(named(calls, 'setTransform')).toEqual([[2, 0, 0, 2, 0, 0]]);
    expect(named(calls, 'clearRect')).toEqual([[0, 0, 20, 40]]);
  });

  it('shows of each tile the part inside the window, where it stands', () => {
    const tiles = [tile([1, 2, 3, 4], 2), tile([5, 6], 2, 2)];
    const window = { top: 1, bottom: 3, left: 0, right: 2 };
    const calls = drawn(scene(tiles, { scroll: { x: 0, y: 20 }, window }));
    const parts = named(calls, 'drawImage').map(([, ...place]) => place);
    expect(parts).toEqual([
      [0, 1, 2, 1, 0, 0, 20, 20],
      [0, 0, 2, 1, 0, 20, 20, 20],
    ]);
  });

  it('leaves out tiles beside the window, and does nothing without any', () => {
    expect(named(drawn(scene([tile([1], 1, 7, 7)])), 'drawImage')).toEqual([]);
    expect(named(drawn(scene([])), 'fillRect')).toEqual([]);
  });

  it('smooths only what is smaller than a pixel', () => {
    const smoothing = (width: number) => {
      const sizes = { rows: 2, columns: 2, width, height: 1 };
      return named(drawn(scene([tile([1, 2, 3, 4], 2)], { sizes })), 'imageSmoothingEnabled=');
    };
    expect(smoothing(0.5)).toEqual([[true]]);
    expect(smoothing(1)).toEqual([[false]]);
  });

  it('has lines between cells and marks in them only where there is room', () => {
    const odd = [tile([1, NaN, Infinity, 4], 2)];
    const small = { rows: 2, columns: 2, width: 4, height: 4 };
    const calls = drawn(scene(odd, { sizes: small, isChanged: () => true }));
    expect(named(calls, 'fillRect')).toEqual([]);
    expect(named(calls, 'stroke')).toEqual([]);
    const large = drawn(scene(odd));
    expect(named(large, 'fillRect')).toHaveLength(6);
    expect(named(large, 'stroke')).toHaveLength(2);
  });

  it('crosses out NaN in white, and hatches infinities in the colour of the text', () => {
    const strokes = (value: number) =>
      named(drawn(scene([tile([value, 0, 0, 0], 2)])), 'strokeStyle=');
    expect(strokes(NaN)).toEqual([['#fff']]);
    expect(strokes(-Infinity)).toEqual([['ink']]);
    expect(strokes(0)).toEqual([]);
  });

  it('marks the upper right corner of what an edit changed', () => {
    const isChanged = (row: number, column: number) => row === 1 && column === 0;
    const calls = drawn(scene([tile([1, 2, 3, 4], 2)], { isChanged }));
    expect(named(calls, 'fillStyle=')).toContainEqual(['new']);
    expect(named(calls, 'moveTo')).toEqual([[5, 20]]);
    expect(named(calls, 'lineTo')).toEqual([
      [10, 20],
      [10, 25],
    ]);
  });
});
