import { describe, expect, it } from 'vitest';

import { bitmap } from './bitmap';
import type { Rgb } from './colours';

const START = 14 + 40 + 256 * 4;

/** The file behind the address of an image. */
function fileOf(address: string): DataView {
  const [head, body = ''] = address.split(',');
  expect(head).toBe('data:image/bmp;base64');
  return new DataView(Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0)).buffer);
}

describe('a bitmap', () => {
  const palette: Rgb[] = [
    [1, 2, 3],
    [250, 251, 252],
  ];

  it('says how large it is, and that its first row is the upper one', () => {
    const file = fileOf(bitmap(2, 3, [0, 1, 0, 1, 1, 0], palette));
    expect([file.getUint8(0), file.getUint8(1)]).toEqual([0x42, 0x4d]);
    expect(file.getUint32(2, true)).toBe(file.byteLength);
    expect(file.getUint32(10, true)).toBe(START);
    expect([file.getInt32(18, true), file.getInt32(22, true)]).toEqual([3, -2]);
    expect(file.getUint16(28, true)).toBe(8);
  });

  it('holds its colours as blue, green, red', () => {
    const file = fileOf(bitmap(1, 1, [1], palette));
    const colour = (at: number) => [0, 1, 2].map((byte) => file.getUint8(54 + at * 4 + byte));
    expect(colour(0)).toEqual([3, 2, 1]);
    expect(colour(1)).toEqual([252, 251, 250]);
  });

  it('fills each row up to whole words', () => {
    const file = fileOf(bitmap(2, 5, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], palette));
    expect(file.byteLength).toBe(START + 2 * 8);
    const pixels = Array.from({ length: 16 }, (_, at) => file.getUint8(START + at));
    expect(pixels).toEqual([1, 2, 3, 4, 5, 0, 0, 0, 6, 7, 8, 9, 10, 0, 0, 0]);
  });
});
