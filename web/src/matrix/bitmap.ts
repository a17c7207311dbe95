/**
 * Small pictures as images rather than canvases: a browser composes every canvas as a layer of its
 * own, in every frame, whatever changed; a page with thirty of them spends ten milliseconds on it.
 *
 * The file is the oldest there is: a header, a palette of 256 colours, and a byte for each pixel.
 */

import type { Rgb } from './colours';

const HEADER = 14;
const INFO = 40;
const PALETTE = 256 * 4;
const START = HEADER + INFO + PALETTE;

/** A BMP of `rows` × `columns` bytes, each an entry of the palette, as the address of an image. */
export function bitmap(
  rows: number,
  columns: number,
  bytes: ArrayLike<number>,
  palette: readonly Rgb[],
): string {
  const stride = Math.ceil(columns / 4) * 4; // a row of the file fills whole words
  const file = new Uint8Array(START + rows * stride);
  const view = new DataView(file.buffer);
  file.set([0x42, 0x4d]); // "BM"
  view.setUint32(2, file.length, true);
  view.setUint32(10, START, true);
  view.setUint32(14, INFO, true);
  view.setInt32(18, columns, true);
  view.setInt32(22, -rows, true); // negative: the first row is the upper one
  view.setUint16(26, 1, true); // planes
  view.setUint16(28, 8, true); // bits a pixel
  palette.forEach(([red, green, blue], at) => file.set([blue, green, red], HEADER + INFO + at * 4));
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      file[START + row * stride + column] = bytes[row * columns + column]!;
    }
  }
  return `data:image/bmp;base64,${btoa(String.fromCharCode(...file))}`;
}
