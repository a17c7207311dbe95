import { expect, test, vi } from 'vitest';

import type { MapBoxInfo, MapInfo } from '../lib/api';
import { VectorCanvas } from '../picture/vector_canvas';
import { Brush } from './brush';
import type { Camera } from './camera';
import { draw } from './draw';
import type { Palette } from './palette';
import { sceneOf } from './scene';

vi.mock('./type', () => ({ widthOf: (text: string) => 0.7 * text.length }));

function box(kind: MapBoxInfo['kind'], parent: number | null, rect: number[]): MapBoxInfo {
  const [x = 0, y = 0, width = 0, height = 0] = rect;
  return {
    ...{ kind, parent, x, y, width, height, name: kind, step: null, n_more: 0 },
    ...{ layer: kind === 'block' ? 0 : null, tower: 0 },
  };
}

const info: MapInfo = {
  width: 1000,
  height: 400,
  boxes: [
    box('tower', null, [0, 0, 1000, 400]),
    box('tokens', 0, [10, 360, 980, 30]),
    box('block', 0, [10, 80, 980, 240]),
    box('feed_forward', 2, [20, 110, 960, 56]),
    box('norm', 2, [20, 170, 960, 46]),
    box('attention', 2, [20, 220, 960, 90]),
    box('answer', 0, [10, 20, 980, 40]),
  ],
  arrows: [],
  columns: [{ kind: 'encoder', x: 700, pitch: 100, texts: ['a long text', 'b'], n_tokens: 2 }],
  heat: [],
  arcs: [],
};

function drawn(camera: Camera, { play = false, enlarged = 1 } = {}): string[] {
  const canvas = new VectorCanvas();
  const scene = sceneOf(info);
  const palette = { sans: 'sans-serif', mono: 'monospace' } as unknown as Palette;
  const brush = new Brush(
    canvas as unknown as CanvasRenderingContext2D,
    camera,
    { width: 800, height: 450 },
    palette,
    enlarged,
  );
  const row = scene.boxes.at(-1)!;
  draw(brush, {
    scene,
    pointed: null,
    selected: null,
    play: play ? { row, rows: scene.boxes, share: 1 } : null,
    nameOf: ({ name }) => name,
    briefOf: ({ name }) => name,
    symbolOf: () => null,
    pictureOf: () => null,
    answers: [],
    answer: 'sad',
  });
  return canvas.parts;
}

/** The texts of a picture and where they begin. */
function written(camera: Camera, enlarged = 1): [string, number][] {
  return drawn(camera, { enlarged }).flatMap((part): [string, number][] => {
    const found = /^<text x="([\d.-]+)".*>([^<]*)<\/text>$/.exec(part);
    return found === null ? [] : [[found[2]!, Number(found[1])]];
  });
}

const WHOLE = { x: 500, y: 200, zoom: 0.8 };

test('every part says its name, wherever the reader looks at it', () => {
  for (const camera of [WHOLE, { x: 760, y: 200, zoom: 1.4 }]) {
    const texts = new Map(written(camera));
    for (const name of ['feed_forward', 'norm', 'attention', 'block']) {
      expect(texts.get(name), name).toBeGreaterThanOrEqual(5);
    }
  }
});

test('in a hall low parts have their names too', () => {
  const small = { ...WHOLE, zoom: 0.17 };
  const names = (enlarged: number) => written(small, enlarged).map(([text]) => text);
  expect(names(1)).not.toContain('norm');
  expect(names(2.4)).toEqual(expect.arrayContaining(['feed_forward', 'norm']));
});

test('a text that is wider than its column is cut', () => {
  const texts = written(WHOLE).map(([text]) => text);
  expect(texts).toContain('a long t…');
  expect(texts).toContain('b');
});

test('one answer is reached by one dot', () => {
  const dots = (text: string) => text.includes('A4.8 4.8 0 1 0');
  expect(drawn(WHOLE, { play: true }).filter(dots)).toHaveLength(1);
});
