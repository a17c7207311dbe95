/**
 * The state of one matrix on the screen: zoom, scroll, the active cell, the tiles that are there.
 *
 * Nothing here touches the DOM; `Matrix.svelte` tells it how large its box is and draws it.
 */

import type { MatrixScale } from './colours';
import { lecture } from '../lib/lecture.svelte';
import { describe } from '../lib/source';
import { areUpright, columnHeaderHeight, exactWidth, labelWidth, rowHeaderWidth } from './headers';
import { EXACT, formatNumber, HUNDREDTHS, SHORT, SHORTEST } from './numbers';
import { store } from './store';
import { corners, tileCount, tileShape, type MatrixPlace, type Tile } from './tiles';
import {
  cellSize,
  clamp,
  EXACT_RUNG,
  MOST_OF_THEM,
  ROW_HEIGHT,
  RUNGS,
  startingRung,
  visible,
  zoomedScroll,
  type Box,
  type Scroll,
  type Sizes,
  type Window,
} from './viewport';

export type CellAt = readonly [number, number];

export interface Outline {
  kind: 'precedent' | 'dependent';
  /** Ends included. */
  rows: readonly [number, number];
  columns: readonly [number, number];
}

/** What of a matrix is in sight, and where. */
export interface View {
  sizes: Sizes;
  scroll: Scroll;
  box: Box;
  window: Window;
  tiles: readonly Tile[];
  /** Whether a cell differs from the run before the edits; null where there were none. */
  isChanged: ((row: number, column: number) => boolean) | null;
}

export interface ColumnWidths {
  shortest: number;
  usual: number;
}

/** A matrix to show. */
export interface MatrixProps {
  place: MatrixPlace;
  /** The same matrix before the edits, to mark what differs. */
  before: MatrixPlace | null;
  rows: number;
  columns: number;
  rowLabels: readonly string[] | null;
  columnLabels: readonly string[] | null;
  scale: MatrixScale | null;
  /** The room that the matrix may take with its headers. */
  room: Box;
  /** Of a row of exact numbers, in pixels, where it may be higher than usual. */
  highestRow?: number | undefined;
}

const SCROLLBAR = 10;
const ONE_PIXEL = RUNGS.indexOf(1);
/** A matrix of more tiles is not drawn smaller than a pixel per number: it would all be fetched. */
const MOST_TILES_AT_ONCE = 8;
const SAMPLE = 4096;
/** With more columns, another digit less would not make them all fit. */
const MOST_FITTED = 24;
/** No screen has room for more columns of exact numbers. */
const MOST_ABREAST = 128;
/** The width of a column of a tile's numbers, by their digits. */
const widths = new WeakMap<Tile, Map<number, number>>();

export class Grid {
  private readonly props: () => MatrixProps;
  /** What the reader chose; null: what fits. */
  private chosen = $state<number | null>(null);
  private arrivals = $state(0);
  private wantedDigits = $state(SHORT);
  scroll = $state.raw<Scroll>({ x: 0, y: 0 });
  problem = $state<string | null>(null);

  constructor(props: () => MatrixProps) {
    this.props = props;
  }

  readonly shape = $derived.by(() => tileShape(this.props().rows, this.props().columns));
  readonly headWidth = $derived.by(() => rowHeaderWidth(this.props().rowLabels, this.props().rows));

  /** The room for cells if column headers stand upright, which is when they need the most. */
  private readonly roomiest = $derived.by((): Box => {
    const { rows, room, columnLabels } = this.props();
    const below = room.height - columnHeaderHeight(columnLabels, false) - SCROLLBAR;
    const bar = rows * ROW_HEIGHT > below ? SCROLLBAR : 0;
    return {
      width: Math.max(40, room.width - this.headWidth - bar),
      height: Math.max(24, room.height - columnHeaderHeight(columnLabels, true) - SCROLLBAR),
    };
  });

  /** The height that labels leave where they lie flat. */
  private readonly flat = $derived.by(() => {
    const { columnLabels } = this.props();
    return columnHeaderHeight(columnLabels, true) - columnHeaderHeight(columnLabels, false);
  });

  readonly lowest = $derived.by(() =>
    tileCount(this.props().rows, this.props().columns) > MOST_TILES_AT_ONCE ? ONE_PIXEL : 0,
  );

  /** Three significant digits where four would cut columns off, and two decimals of shares where
   * three would, before anything is cut. */
  readonly digits = $derived.by(() => {
    if (this.wantedDigits !== SHORT) return this.wantedDigits;
    const { columns } = this.props();
    if (columns > MOST_FITTED) return SHORT;
    const fits = (digits: number, part = 1) =>
      part * columns * this.widthOf(digits) <= this.roomiest.width;
    if (fits(SHORT)) return SHORT;
    const isShare = this.props().scale?.kind === 'probability';
    const isCut = !fits(SHORTEST) && (lecture.isOn || fits(SHORTEST, MOST_OF_THEM));
    return isShare && isCut && fits(HUNDREDTHS) ? HUNDREDTHS : SHORTEST;
  });
  /** The widths of a column, its numbers at their shortest and as usual; null until there are
   * numbers, and where no screen is wide enough for all of them. */
  readonly columnWidths = $derived.by((): ColumnWidths | null =>
    this.firstTile === undefined || this.props().columns > MOST_ABREAST
      ? null
      : {
          shortest: this.widthOf(SHORTEST),
          usual: Math.max(this.widthOf(SHORT), labelWidth(this.props().columnLabels)),
        },
  );
  /** Wide enough for the labels, too, as far as all columns fit then. */
  private readonly widest = $derived.by(() => {
    const { columns, columnLabels } = this.props();
    const share = Math.floor(this.roomiest.width / Math.max(1, columns));
    return Math.max(this.widthOf(this.digits), Math.min(labelWidth(columnLabels), share));
  });

  /** The width of a column of exact numbers with so many digits. */
  private widthOf(digits: number): number {
    const first = this.firstTile;
    if (first === undefined) return 64;
    const known = widths.get(first) ?? new Map<number, number>();
    widths.set(first, known);
    const found = known.get(digits) ?? measured(first, digits);
    known.set(digits, found);
    return found;
  }

  readonly rung = $derived.by(() => {
    const { rows, columns } = this.props();
    const exact = () => this.widest;
    const started = startingRung(rows, columns, this.roomiest, exact, this.lowest, this.flat);
    return clamp(this.chosen ?? started, this.lowest, EXACT_RUNG);
  });
  readonly isExact = $derived.by(() => this.rung === EXACT_RUNG);
  readonly sizes = $derived.by(() => {
    const { rows, columns } = this.props();
    return cellSize(
      this.rung,
      rows,
      columns,
      this.roomiest,
      () => this.widest,
      this.flat,
      this.props().highestRow,
    );
  });
  readonly isUpright = $derived.by(() => areUpright(this.props().columnLabels, this.sizes.width));
  readonly headHeight = $derived.by(() =>
    columnHeaderHeight(this.props().columnLabels, this.isUpright),
  );

  /** The visible field of cells. */
  readonly box = $derived.by((): Box => {
    const { rows, columns, width, height } = this.sizes;
    const { room } = this.props();
    return {
      width: Math.min(Math.ceil(columns * width), this.roomiest.width),
      height: Math.min(
        Math.ceil(rows * height),
        Math.max(24, room.height - this.headHeight - SCROLLBAR),
      ),
    };
  });
  readonly content = $derived.by((): Box => {
    const { rows, columns, width, height } = this.sizes;
    return { width: Math.ceil(columns * width), height: Math.ceil(rows * height) };
  });
  readonly overflows = $derived.by(() => ({
    x: this.content.width > this.box.width,
    y: this.content.height > this.box.height,
  }));
  /** The size of what scrolls: with room for scrollbars that lie over it and take none away. */
  readonly scrolled = $derived.by((): Box => ({
    width: this.headWidth + this.content.width + (this.overflows.x ? SCROLLBAR : 0),
    height: this.headHeight + this.content.height + (this.overflows.y ? SCROLLBAR : 0),
  }));
  /** The size of the scrolling element, scrollbars included. */
  readonly frame = $derived.by((): Box => ({
    width: this.headWidth + this.box.width + (this.overflows.y ? SCROLLBAR : 0),
    height: this.headHeight + this.box.height + (this.overflows.x ? SCROLLBAR : 0),
  }));

  readonly window = $derived.by(() => visible(this.sizes, this.scroll, this.box));
  private readonly wanted = $derived.by(() => corners(this.window, this.shape));
  readonly tiles = $derived.by(() => this.there(this.props().place));
  private readonly beforeTiles = $derived.by(() => {
    const { before } = this.props();
    return before === null ? [] : this.there(before);
  });
  private readonly firstTile = $derived.by(() => {
    void this.arrivals;
    return store.peek(this.props().place, 0, 0);
  });

  /** Ask for what the window shows and is not there; to be called in an effect. */
  load(): void {
    const { place, before, rows, columns } = this.props();
    for (const where of before === null ? [place] : [place, before]) {
      for (const [top, left] of this.wanted) {
        if (store.peek(where, top, left) !== undefined) continue;
        const height = Math.min(this.shape.rows, rows - top);
        const width = Math.min(this.shape.columns, columns - left);
        store.load(where, top, left, height, width).then(
          () => {
            this.arrivals += 1;
            this.problem = null;
          },
          (error: unknown) => (this.problem = describe(error)),
        );
      }
    }
  }

  /** The number of a cell, if it has been fetched. */
  valueAt(row: number, column: number): number | undefined {
    return valueIn(this.tiles, row, column);
  }

  /** Whether it is memory that nothing wrote to. */
  isUnwritten(row: number, column: number): boolean {
    const tile = tileOf(this.tiles, row, column);
    return tile?.unwritten?.[placeIn(tile, row, column)] === 1;
  }

  /** Its number before the edits, where that was another one. */
  valueBefore(row: number, column: number): number | undefined {
    const before = valueIn(this.beforeTiles, row, column);
    return before === undefined || Object.is(before, this.valueAt(row, column))
      ? undefined
      : before;
  }

  get view(): View {
    const { sizes, scroll, box, window, tiles } = this;
    const isChanged =
      this.beforeTiles.length > 0
        ? (row: number, column: number) => this.valueBefore(row, column) !== undefined
        : null;
    return { sizes, scroll, box, window, tiles, isChanged };
  }

  /** Follow the scrolling element, but not past the last cell. */
  follow(x: number, y: number): void {
    this.scroll = {
      x: clamp(x, 0, Math.max(0, this.content.width - this.box.width)),
      y: clamp(y, 0, Math.max(0, this.content.height - this.box.height)),
    };
  }

  /** A rung up or down, the cell under a point of the field staying there; the new scroll. */
  zoom(direction: 1 | -1, x: number, y: number): Scroll {
    const before = this.sizes;
    this.chosen = clamp(this.rung + direction, this.lowest, EXACT_RUNG);
    return zoomedScroll(before, this.sizes, this.scroll, x, y);
  }

  /** Back to the level that fits. */
  fit(): void {
    this.chosen = null;
  }

  showExact(): void {
    this.chosen = EXACT_RUNG;
  }

  get isFitted(): boolean {
    return this.chosen === null;
  }

  toggleDigits(): void {
    if (this.isExact) this.chosen = EXACT_RUNG; // longer numbers do not turn them into colours
    this.wantedDigits = this.wantedDigits === SHORT ? EXACT : SHORT;
  }

  private there(place: MatrixPlace): Tile[] {
    void this.arrivals;
    return this.wanted
      .map(([top, left]) => store.peek(place, top, left))
      .filter((tile) => tile !== undefined);
  }
}

function measured({ values }: Tile, digits: number): number {
  const stride = Math.max(1, Math.ceil(values.length / SAMPLE));
  const texts: string[] = [];
  for (let i = 0; i < values.length; i += stride) texts.push(formatNumber(values[i], digits));
  return exactWidth(texts);
}

function valueIn(tiles: readonly Tile[], row: number, column: number): number | undefined {
  const tile = tileOf(tiles, row, column);
  return tile?.values[placeIn(tile, row, column)];
}

function tileOf(tiles: readonly Tile[], row: number, column: number): Tile | undefined {
  return tiles.find(
    ({ top, left, rows, columns }) =>
      row >= top && row < top + rows && column >= left && column < left + columns,
  );
}

export function placeIn({ top, left, columns }: Tile, row: number, column: number): number {
  return (row - top) * columns + column - left;
}
