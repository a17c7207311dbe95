/**
 * Numbers → colours, by a table of 256 entries.
 *
 * Signed numbers diverge about 0 out to ±limit; probabilities run from 0 to the limit (cividis),
 * 1 unless a head has its own; whole numbers (ids) have no scale and stay plain. The stops are those of `documents/heat_maps.py`;
 * on a dark page the middle of the diverging scale is the page's own background.
 */

import type { Scale } from '../lib/api';

/** A scale for all numbers of a matrix, or one for each of its rows. */
export interface MatrixScale extends Scale {
  /** The limit of each row. */
  limits?: readonly number[];
}

/** The scale of a row. */
export function scaleOfRow(scale: MatrixScale | null, row: number): Scale | null {
  const limit = scale?.limits?.[row];
  return scale === null || limit === undefined ? scale : { ...scale, limit };
}

export type Rgb = readonly [number, number, number];

/** The table's last entries are for what has no place on a scale. */
export const N_COLOURS = 253;
export const PLAIN = 253;
export const INFINITE = 254;
export const NOT_A_NUMBER = 255;

const SIGNED: readonly Rgb[] = [
  [59, 125, 191],
  [247, 247, 247],
  [230, 126, 34],
];
const SIGNED_DARK: readonly Rgb[] = [
  [86, 160, 232],
  [21, 28, 37],
  [236, 138, 52],
];
const CIVIDIS: readonly Rgb[] = [
  [0, 34, 78],
  [67, 78, 108],
  [125, 124, 120],
  [188, 174, 108],
  [254, 232, 56],
];
const PLAIN_LIGHT: Rgb = [247, 247, 247];
const PLAIN_DARK: Rgb = [26, 35, 46];
const INFINITE_LIGHT: Rgb = [205, 207, 212];
const INFINITE_DARK: Rgb = [66, 70, 80];
const MAGENTA: Rgb = [214, 51, 158];

export interface ColourTable {
  /** Red, green, blue of each entry. */
  readonly colours: readonly Rgb[];
  /** The same, packed as ImageData's bytes are read by a little-endian Uint32Array. */
  readonly packed: Uint32Array;
  /** Black or white, whichever reads better on each entry. */
  readonly inks: readonly string[];
}

const tables = new Map<string, ColourTable>();

/** The table of a scale, whatever its limit; each is made once. */
export function colourTable(scale: Scale | null, dark: boolean): ColourTable {
  const key = `${scale?.kind ?? 'plain'} ${dark}`;
  const table = tables.get(key) ?? makeTable(scale, dark);
  tables.set(key, table);
  return table;
}

function makeTable(scale: Scale | null, dark: boolean): ColourTable {
  const stops = scale?.kind === 'probability' ? CIVIDIS : dark ? SIGNED_DARK : SIGNED;
  const colours: Rgb[] = Array.from({ length: N_COLOURS }, (_, place) =>
    between(stops, place / (N_COLOURS - 1)),
  );
  colours.push(dark ? PLAIN_DARK : PLAIN_LIGHT, dark ? INFINITE_DARK : INFINITE_LIGHT, MAGENTA);
  return { colours, packed: Uint32Array.from(colours, pack), inks: colours.map(ink) };
}

/** The table's entry for a number. */
export function entryOf(value: number, scale: Scale | null): number {
  if (value !== value) return NOT_A_NUMBER;
  if (scale === null) return PLAIN;
  if (value === -Infinity || value === Infinity) return INFINITE;
  const share = scale.kind === 'probability' ? value / scale.limit : (value / scale.limit + 1) / 2;
  const place = Math.round(share * (N_COLOURS - 1));
  return place < 0 ? 0 : place >= N_COLOURS ? N_COLOURS - 1 : place;
}

/** Colour a block of whole rows from row `top` of a matrix on. */
export function colourRows(
  {
    values,
    columns,
    top = 0,
  }: { values: Float32Array | Float64Array; columns: number; top?: number },
  scale: MatrixScale | null,
  table: ColourTable,
  pixels: Uint32Array,
): void {
  if (scale?.limits === undefined) return colour(values, scale, table, pixels);
  for (let at = 0; at < values.length; at += columns) {
    const own = scaleOfRow(scale, top + at / columns);
    const end = at + columns;
    colour(values.subarray(at, end), own, table, pixels.subarray(at, end));
  }
}

/** Colour numbers in one go; `pixels` has one entry per number. */
export function colour(
  values: Float32Array | Float64Array,
  scale: Scale | null,
  table: ColourTable,
  pixels: Uint32Array,
): void {
  const { packed } = table;
  if (scale === null) colourPlain(values, packed, pixels);
  else if (scale.kind === 'probability') {
    colourAlong(values, (N_COLOURS - 1) / scale.limit, 0, packed, pixels);
    clearZeros(values, pixels);
  } else {
    const middle = (N_COLOURS - 1) / 2;
    colourAlong(values, middle / scale.limit, middle, packed, pixels);
  }
}

function colourPlain(
  values: Float32Array | Float64Array,
  packed: Uint32Array,
  pixels: Uint32Array,
): void {
  for (let i = 0; i < values.length; i++) {
    pixels[i] = packed[values[i] !== values[i] ? NOT_A_NUMBER : PLAIN];
  }
}

/** Weights of exactly 0 (masked) stay clear: the hatch behind the picture shows. */
function clearZeros(values: Float32Array | Float64Array, pixels: Uint32Array): void {
  for (let i = 0; i < values.length; i++) if (values[i] === 0) pixels[i] = 0;
}

/**
 * Colour numbers by their place on a scale, `value * slope + start`, rounded.
 *
 * This is the inner loop of drawing: nothing but numbers comes in, so that a browser that has made
 * machine code of it for one matrix can use it for every other.
 */
export function colourAlong(
  values: Float32Array | Float64Array,
  slope: number,
  start: number,
  packed: Uint32Array,
  pixels: Uint32Array,
): void {
  const last = N_COLOURS - 1;
  const rounded = start + 0.5;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    const place = value * slope + rounded;
    if (place >= 0 && place <= last) pixels[i] = packed[place | 0];
    else if (value !== value) pixels[i] = packed[NOT_A_NUMBER];
    else if (value === Infinity || value === -Infinity) pixels[i] = packed[INFINITE];
    else pixels[i] = packed[place < 0 ? 0 : last];
  }
}

export function css([red, green, blue]: Rgb, opacity = 1): string {
  return opacity === 1
    ? `rgb(${red} ${green} ${blue})`
    : `rgb(${red} ${green} ${blue} / ${opacity})`;
}

/** A CSS gradient over a scale, for a legend. */
export function gradient(table: ColourTable): string {
  const stops = [0, 63, 126, 189, N_COLOURS - 1].map((entry) => css(table.colours[entry]));
  return `linear-gradient(to right, ${stops.join(', ')})`;
}

function between(stops: readonly Rgb[], share: number): Rgb {
  const place = share * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  const part = place - low;
  const mix = (channel: 0 | 1 | 2) =>
    Math.round(stops[low][channel] + (stops[low + 1][channel] - stops[low][channel]) * part);
  return [mix(0), mix(1), mix(2)];
}

function pack([red, green, blue]: Rgb): number {
  return (255 << 24) | (blue << 16) | (green << 8) | red;
}

function ink([red, green, blue]: Rgb): string {
  return luminance(red, green, blue) > 0.18 ? '#000' : '#fff';
}

/** Relative luminance as WCAG defines it; above 0.18 black has the higher contrast. */
function luminance(red: number, green: number, blue: number): number {
  const [r, g, b] = [red, green, blue].map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
