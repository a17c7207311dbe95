import { describe, expect, test } from 'vitest';

import { between, fit, panBy, toPicture, toScreen, within, zoomAt } from './camera';

const screen = { width: 800, height: 600 };
const camera = { x: 100, y: 50, zoom: 2 };

describe('a camera', () => {
  test('goes from the picture to the screen and back', () => {
    const [x, y] = toScreen(camera, screen, 130, 20);
    expect([x, y]).toEqual([460, 240]);
    expect(toPicture(camera, screen, x, y)).toEqual([130, 20]);
  });

  test('keeps the point under the pointer when it zooms', () => {
    const before = toPicture(camera, screen, 700, 100);
    const closer = zoomAt(camera, screen, 1.7, 700, 100, 0.1);
    expect(closer.zoom).toBeCloseTo(3.4);
    toPicture(closer, screen, 700, 100).forEach((one, at) => expect(one).toBeCloseTo(before[at]));
  });

  test('does not zoom out beyond the whole picture', () => {
    expect(zoomAt(camera, screen, 0.001, 0, 0, 0.4).zoom).toBe(0.4);
  });

  test('fits a part of the picture', () => {
    const found = fit({ x: 0, y: 0, width: 1504, height: 100 }, screen);
    expect(found).toEqual({ x: 752, y: 62, zoom: 0.5 }); // 12: half of what the margins differ by
    expect(fit({ x: 0, y: 0, width: 10, height: 10 }, screen, 2).zoom).toBe(2);
  });

  test('stays over the picture', () => {
    const far = panBy(camera, 5000, -5000);
    expect(within(far, { width: 300, height: 200 })).toEqual({ x: 0, y: 200, zoom: 2 });
  });

  test('starts and ends where it should, and zooms evenly between', () => {
    const to = { x: 400, y: 90, zoom: 8 };
    expect(between(camera, to, 0)).toEqual(camera);
    const end = between(camera, to, 1);
    expect([end.x, end.y, end.zoom].map((one) => Math.round(one))).toEqual([400, 90, 8]);
    expect(between(camera, to, 0.5).zoom).toBeCloseTo(4);
    expect(between(camera, { ...camera, x: 0 }, 0.5).x).toBeCloseTo(50);
  });
});
