/**
 * The numbers of matrices, fetched by window when they are needed and kept while there is room.
 *
 * A small matrix is one tile; a larger one is cut so that no tile holds more than half a million
 * numbers. The store is shared by all panels of the page and forgets the tiles used longest ago.
 */

export type Numbers = Float32Array | Float64Array;

/** Where a panel's numbers are: a step, or an operand as the step's operator saw it. */
export interface MatrixPlace {
  trace: string;
  step: number;
  operand: number | null;
  lead: readonly number[];
  /** Whether rows and columns are drawn in each other's place. */
  transposed: boolean;
  /** The numbers are differences: those of the same matrix of another run are taken off. */
  minus?: { trace: string; step: number };
}

export interface TileShape {
  rows: number;
  columns: number;
}

export interface Tile {
  top: number;
  left: number;
  rows: number;
  columns: number;
  values: Numbers;
  /** 1 where a number is memory that nothing wrote to; null where there is none. */
  unwritten: Uint8Array | null;
}

export type FetchTile = (
  place: MatrixPlace,
  rows: readonly [number, number],
  columns: readonly [number, number],
) => Promise<Pick<Tile, 'values' | 'unwritten'>>;

const MOST_PER_TILE = 2 ** 19;
const MOST_BYTES = 96 * 2 ** 20;

/** How a matrix is cut: whole if it is small, wide tiles for few rows, tall ones for few columns. */
export function tileShape(rows: number, columns: number): TileShape {
  const side = Math.floor(Math.sqrt(MOST_PER_TILE));
  const height = Math.min(rows, Math.max(side, Math.floor(MOST_PER_TILE / Math.max(1, columns))));
  const width = Math.min(columns, Math.floor(MOST_PER_TILE / Math.max(1, height)));
  return { rows: Math.max(1, height), columns: Math.max(1, width) };
}

export function tileCount(rows: number, columns: number): number {
  const shape = tileShape(rows, columns);
  return Math.ceil(rows / shape.rows) * Math.ceil(columns / shape.columns);
}

/** The upper left corners of the tiles that a window touches. */
export function corners(
  window: { top: number; bottom: number; left: number; right: number },
  shape: TileShape,
): [number, number][] {
  const found: [number, number][] = [];
  const start = (at: number, size: number) => Math.floor(at / size) * size;
  for (let top = start(window.top, shape.rows); top < window.bottom; top += shape.rows) {
    for (let left = start(window.left, shape.columns); left < window.right; left += shape.columns) {
      found.push([top, left]);
    }
  }
  return found;
}

/** The same numbers, rows and columns in each other's place. */
export function transpose<T extends Numbers | Uint8Array>(
  values: T,
  rows: number,
  columns: number,
): T {
  const turned = values.slice() as T;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      turned[column * rows + row] = values[row * columns + column];
    }
  }
  return turned;
}

/** Numbers less others; equal infinities differ by nothing. */
export function difference(values: Numbers, less: Numbers): Float64Array {
  return Float64Array.from(values, (value, at) => (value === less[at] ? 0 : value - less[at]!));
}

export class TileStore {
  private readonly tiles = new Map<string, Tile>();
  private readonly waiting = new Map<string, Promise<Tile>>();
  private bytes = 0;

  constructor(
    private readonly fetchTile: FetchTile,
    private readonly mostBytes = MOST_BYTES,
  ) {}

  /** A tile that is there, or undefined; looking at it keeps it young. */
  peek(place: MatrixPlace, top: number, left: number): Tile | undefined {
    const key = keyOf(place, top, left);
    const tile = this.tiles.get(key);
    if (tile !== undefined) {
      this.tiles.delete(key);
      this.tiles.set(key, tile);
    }
    return tile;
  }

  async load(
    place: MatrixPlace,
    top: number,
    left: number,
    rows: number,
    columns: number,
  ): Promise<Tile> {
    const known = this.peek(place, top, left);
    if (known !== undefined) return known;
    const key = keyOf(place, top, left);
    const pending = this.waiting.get(key);
    if (pending !== undefined) return pending;
    const work = this.fetchTile(place, [top, top + rows], [left, left + columns])
      .then((numbers) => this.keep(key, { top, left, rows, columns, ...numbers }))
      .finally(() => this.waiting.delete(key));
    this.waiting.set(key, work);
    return work;
  }

  private keep(key: string, tile: Tile): Tile {
    this.tiles.set(key, tile);
    this.bytes += tile.values.byteLength;
    for (const [oldest, old] of this.tiles) {
      if (this.bytes <= this.mostBytes || oldest === key) break;
      this.tiles.delete(oldest);
      this.bytes -= old.values.byteLength;
    }
    return tile;
  }
}

function keyOf(place: MatrixPlace, top: number, left: number): string {
  const { trace, step, operand, lead, transposed, minus } = place;
  const less = minus === undefined ? '' : `/-${minus.trace}/${minus.step}`;
  return `${trace}/${step}/${operand ?? ''}/${lead.join(',')}${transposed ? '/T' : ''}${less}/${top},${left}`;
}
