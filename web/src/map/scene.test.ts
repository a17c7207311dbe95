import { describe, expect, test } from 'vitest';

import type { MapBoxInfo, MapInfo } from '../lib/api';
import {
  arcsOf,
  boxAt,
  columnAt,
  halfOf,
  isContainer,
  keyX,
  sceneOf,
  stations,
  visibility,
  wayTo,
} from './scene';

function box(kind: MapBoxInfo['kind'], parent: number | null, rect: number[]): MapBoxInfo {
  const [x = 0, y = 0, width = 0, height = 0] = rect;
  const isTower = kind !== 'group';
  return {
    ...{ kind, parent, x, y, width, height, name: kind, step: 7, n_more: 0, layer: null },
    tower: isTower ? 0 : null,
  };
}

/** One tower with a block, in it an attention with a step; two tokens. */
const info: MapInfo = {
  width: 1000,
  height: 400,
  boxes: [
    box('tower', null, [0, 0, 1000, 400]),
    box('tokens', 0, [10, 360, 980, 30]),
    box('stream', 0, [10, 330, 980, 20]),
    box('block', 0, [10, 100, 980, 220]),
    box('attention', 3, [20, 180, 960, 120]),
    box('step', 4, [150, 220, 56, 34]),
    box('stream', 3, [20, 140, 960, 22]),
    box('answer', 0, [10, 20, 980, 40]),
  ],
  arrows: [
    {
      kind: 'residual',
      source: 2,
      target: 6,
      points: [
        [0, 0],
        [0, 9],
      ],
    },
  ],
  columns: [{ kind: 'encoder', x: 700, pitch: 100, texts: ['a', 'b'], n_tokens: 2 }],
  heat: [{ box: 2, rows: 1, columns: 3, group: 1, limit: 2, data: btoa('\x00\x7f\xfe') }],
  arcs: [
    ...[{ box: 4, weights: 9, n_heads: 1, keys: 0, rows: 2, columns: 2 }].map((one) => ({
      ...one,
      data: btoa('\xff\x00\x33\xcc'),
    })),
  ],
};

describe('the scene of a picture', () => {
  const scene = sceneOf(info);
  const [tower, tokens, , block, attention, step] = scene.boxes;

  test('has its boxes inside each other and its bytes as numbers', () => {
    expect(scene.roots).toEqual([tower]);
    expect(wayTo(step!)).toEqual([tower, block, attention, step]);
    expect([...scene.heat[0]!.bytes]).toEqual([0, 127, 254]);
    expect(scene.arrows[0]!.target).toBe(scene.boxes[6]);
  });

  test('draws weights from the largest on, and none that are next to nothing', () => {
    expect(scene.attention[0]!.arcs.map(({ query, key }) => [query, key])).toEqual([
      [0, 0],
      [1, 1],
      [1, 0],
    ]);
    expect(arcsOf([0.5, 0.01, 0.3, 0.7], 2).map(({ weight }) => weight)).toEqual([0.7, 0.5, 0.3]);
  });

  test('opens what is large enough to be read', () => {
    const [x, y] = [160, 230]; // on the step
    expect(boxAt(scene, x, y, 0.05)).toBe(block);
    expect(boxAt(scene, x, y, 0.4)).toBe(attention);
    expect(boxAt(scene, x, y, 1)).toBe(step);
    expect(boxAt(scene, -5, y, 1)).toBeNull();
    expect(visibility(step!, 0.5)).toBe(0);
    expect(visibility(step!, 2)).toBe(1);
  });

  test('knows the columns of the tokens', () => {
    expect(columnAt(scene, 0, 690)).toBe(0);
    expect(columnAt(scene, 0, 760)).toBe(1);
    expect(columnAt(scene, 0, 400)).toBeNull();
    expect(columnAt(scene, null, 700)).toBeNull();
  });

  test('lets keys of another tower come in spread over the columns', () => {
    const own = scene.attention[0]!;
    expect(keyX(scene, own, 1)).toBe(800);
    expect(keyX(scene, { ...own, keys: 1, columns: 4 }, 0)).toBe(675);
  });

  test('shows one half of a part at a time', () => {
    const right = halfOf(scene, attention!, true);
    const left = halfOf(scene, attention!, false);
    expect(left.x + left.width).toBe(right.x);
    expect(right.x + right.width).toBe(980);
    expect(right.height).toBeGreaterThan(attention!.height);
  });

  test('is played from the tokens to the answer', () => {
    expect(stations(scene).map(({ kind }) => kind)).toEqual([
      ...['tokens', 'stream', 'attention', 'stream', 'answer'],
    ]);
    expect(isContainer(tokens!)).toBe(false);
    expect(isContainer(attention!)).toBe(true);
  });
});
