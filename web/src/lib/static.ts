/**
 * The source inside a page that was saved as one file: the answers were worked out when the file
 * was written (`explorer/saved_page.py`), by the functions that answer a server's routes.
 *
 * What belongs to a step is one compressed chunk, unpacked when the step is first looked at. In
 * chunks a cell is `{"$": [step, place]}`, its place being its position when the step is read row
 * by row; symbol, labels and value are looked up here. A third and fourth part are its value and
 * its name, where these are not to be found so. Nothing is computed but the products of a dot
 * product, from the factors that are listed with it.
 */

import { formatNumber } from '../matrix/numbers';
import * as api from './api';
import { t } from './i18n';
import { setting } from './setting.svelte';
import { Refused, type Saved, type Source } from './source';

/** The page's data, as the file holds it. */
export interface Embedded {
  title: string | null;
  left: Saved['left'];
  /** `Opened`, compressed. */
  trace: string;
  /** The numbers of steps, compressed. */
  values: Record<string, { dtype: 'float32' | 'float64'; data: string; unwritten?: number[] }>;
  /** `StepAnswers`, compressed. */
  steps: Record<string, string>;
  /** What the views of a playlist show, whatever else was left out. */
  pinned?: Pinned[];
}

interface Opened {
  trace: api.TraceInfo;
  /** What each step is called in formulas. */
  symbols: string[];
  thumbnails: api.Thumbnail[];
  changes: api.Changes;
  map: api.MapInfo;
}

/** Cells that lie regularly in one step, or one by one: step, place, step, place, … */
export type Cells =
  | { step: number; base: number; sizes: number[]; strides: number[]; names?: string[] }
  | { pairs: number[] };

/** What a saved page knows about a step. */
interface StepAnswers {
  /** For each slice, its leading places read row by row; null where it was left out. */
  equations: (api.Equation | null)[];
  operands: Cells[];
  /** Of a view: the cells that it shows. */
  shows: Cells | null;
  cards: PackedCards | null;
  dependents: unknown[] | null;
  paths: unknown[] | null;
  /** The steps whose numbers the cells in all this show. */
  reads: number[];
  /** What steps are called in its formulas, where it is not what they are called elsewhere. */
  symbols: Record<string, string>;
  /** The names of its cells, where these are parts of several tensors packed into one. */
  names: string[] | null;
  /** What the step is for: its slices read row by row, the first of them surely. */
  meanings: Pick<api.MeaningInfo, 'lesson' | 'paper'> & Record<api.Language, string[]>;
  /** What each number is for. */
  cell_meanings: Record<api.Language, string[]> | null;
}

/** Cards field by field: what all cells of the step share, and what each has of its own. */
interface PackedCards {
  shared: Record<string, unknown>;
  each: Record<string, unknown[]>;
  /** Chinese where it differs, by field and place. */
  zh: Record<string, Record<string, unknown>>;
}

interface PackedSum extends Omit<api.SumInfo, 'factors' | 'products'> {
  factors: (Cells | api.WireNumber[])[];
  /** Null: the products of the factors. */
  products: api.WireNumber[] | null;
  /** The terms after the products; null where the products are not the first terms. */
  after: api.WireNumber[] | null;
}

type Numbers = Float32Array | Float64Array;
type Reference = [step: number, at: number, value?: api.WireNumber | null, name?: string];
type Link = (step: number, at: number, value: api.WireNumber, name?: string) => api.CellRef;

interface PinnedCell extends api.CellPlace {
  card: Record<api.Language, api.CardInfo>;
  meaning: Record<api.Language, api.MeaningInfo>;
}

interface Pinned {
  step: number;
  lead: number[];
  equation: api.Equation;
  cell: PinnedCell | null;
}

/** What only a server can do. */
const readOnly = (): Promise<never> => Promise.reject(leftOut('saved.readOnly'));

export class StaticSource implements Source {
  readonly can = { edit: false, decode: false, export: false, experiment: false };
  readonly saved: Saved;

  private readonly opened: Promise<Opened>;
  private readonly chunks = new Map<number, Promise<StepAnswers>>();
  private readonly numbers = new Map<number, Promise<Numbers>>();

  constructor(
    private readonly data: Embedded,
    private readonly id: string = TRACE,
  ) {
    this.saved = { trace: id, title: data.title, left: data.left };
    this.opened = unpacked<Opened>(data.trace);
  }

  onDropped(): void {
    // what is in the file stays there
  }

  // --- the trace ---

  models(): Promise<api.ModelInfo[]> {
    return Promise.resolve([]);
  }

  async trace(id: string): Promise<api.TraceInfo> {
    if (id !== this.id) throw leftOut('saved.noTrace');
    return (await this.opened).trace;
  }

  async changes(): Promise<api.Changes> {
    return (await this.opened).changes;
  }

  async thumbnails(_id: string, steps: number[]): Promise<api.Thumbnail[]> {
    const wanted = new Set(steps);
    return (await this.opened).thumbnails.filter(({ step }) => wanted.has(step));
  }

  async map(): Promise<api.MapInfo> {
    return (await this.opened).map;
  }

  // --- a step ---

  async equation(_id: string, step: number, lead: number[]): Promise<api.Equation> {
    const { trace } = await this.opened;
    const pinned = this.data.pinned?.find(
      (one) => one.step === step && String(one.lead) === String(lead),
    );
    if (pinned !== undefined) return pinned.equation;
    const { equations } = await this.answers(step);
    const found = equations[placeOf(trace.steps[step]!.shape.slice(0, -2), lead)];
    if (!found) throw leftOut('saved.noStep');
    return found;
  }

  async meaning(
    _id: string,
    { step, index, lead }: api.MeaningPlace,
    language: api.Language,
  ): Promise<api.MeaningInfo> {
    const { trace } = await this.opened;
    const { meanings, cell_meanings: cells } = await this.answers(step);
    const { lesson, paper } = meanings;
    const { shape } = trace.steps[step]!;
    const text =
      index === null
        ? (meanings[language][placeOf(shape.slice(0, -2), lead)] ?? meanings[language][0])
        : (cells?.[language][placeOf(shape, index)] ??
          this.pinnedCell({ step, index })?.meaning[language].text);
    if (text === undefined) throw leftOut('saved.noCard');
    return { text, lesson, paper };
  }

  async values(
    _id: string,
    { step, lead, operand }: api.PanelPlace,
    window?: api.Window | null,
  ): Promise<api.Values> {
    const { trace } = await this.opened;
    const info = trace.steps[step]!;
    const shape = typeof operand === 'number' ? info.operands[operand]!.shape : info.shape;
    const [height, width] = [shape.at(-2) ?? 1, shape.at(-1) ?? 1];
    const [top, bottom] = window?.rows ?? [0, height];
    const [left, right] = window?.columns ?? [0, width];
    const at = await this.reader(step, operand ?? null);
    const first = placeOf(shape.slice(0, -2), lead) * height * width;
    const [rows, columns] = [bottom - top, right - left];
    const data = new Float64Array(rows * columns);
    const unwritten = new Uint8Array(rows * columns);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const [values, place, unset] = at(first + (top + row) * width + left + column);
        data[row * columns + column] = values[place]!;
        if (unset?.has(place)) unwritten[row * columns + column] = 1;
      }
    }
    return { rows, columns, data, unwritten: unwritten.includes(1) ? unwritten : null };
  }

  /** Where the numbers of a step or of an operand are, and which of those nothing wrote to. */
  private async reader(
    step: number,
    operand: number | null,
  ): Promise<(at: number) => [Numbers, number, Set<number> | null]> {
    const answers = await this.answers(step);
    const cells = operand === null ? answers.shows : answers.operands[operand];
    const owners = new Map<number, [Numbers, Set<number> | null]>();
    for (const owner of cells ? ownersOf(cells) : [step]) {
      const { unwritten } = this.data.values[owner] ?? {};
      owners.set(owner, [await this.valuesOf(owner), unwritten ? new Set(unwritten) : null]);
    }
    return (at) => {
      const [owner, place] = cells ? cellAt(cells, at) : [step, at];
      const [values, unset] = owners.get(owner)!;
      return [values, place, unset];
    };
  }

  // --- a cell ---

  async card(
    _id: string,
    place: api.CellPlace,
    operand: number | null = null,
  ): Promise<api.CardInfo> {
    const { trace } = await this.opened;
    const [step, at] = await this.find(place, operand);
    const { cards, names } = await this.answers(step);
    const pinned = operand === null ? this.pinnedCell(place) : undefined;
    if (pinned !== undefined) return pinned.card[setting.language];
    if (cards === null) throw leftOut('saved.noCard');
    const revive = await this.reviver(step);
    const own = { $: [step, at, null, names?.[at]] };
    const card = revive({ ...fieldsAt(cards, at), cell: own }) as api.CardInfo;
    if (!('exact' in cards.each)) fillGiven(card, trace.steps[step]!);
    return card.sum === null ? card : { ...card, sum: await this.sumOf(card.sum, step) };
  }

  async terms(
    id: string,
    place: api.CellPlace,
    { offset = 0, limit = 100, order = 'size' }: api.TermRange = {},
  ): Promise<api.TermPage> {
    const { sum } = await this.card(id, place);
    const packed = sum as (api.SumInfo & { terms?: api.TermInfo[] }) | null;
    if (!packed?.terms) throw leftOut('saved.noTerms');
    const size = ({ value }: api.TermInfo) => Math.abs(api.toNumber(value));
    const all =
      order === 'index' ? packed.terms : [...packed.terms].sort((a, b) => size(b) - size(a));
    return { total: all.length, offset, terms: all.slice(offset, offset + limit) };
  }

  async dependents(_id: string, place: api.CellPlace): Promise<api.DependentInfo[]> {
    const [step, at] = await this.find(place, null);
    const { dependents } = await this.answers(step);
    if (dependents === null) throw leftOut('saved.noDependents');
    return (await this.reviver(step))(dependents[at]) as api.DependentInfo[];
  }

  async path(_id: string, place: api.CellPlace): Promise<api.CellRef[]> {
    const [step, at] = await this.find(place, null);
    const { paths } = await this.answers(step);
    if (paths === null) throw leftOut('saved.noCard');
    return (await this.reviver(step))(paths[at]) as api.CellRef[];
  }

  /** What was kept of a cell because a view of a playlist shows its card. */
  private pinnedCell({ step, index }: api.CellPlace): PinnedCell | undefined {
    const kept = this.data.pinned?.find(
      ({ cell }) => cell?.step === step && String(cell.index) === String(index),
    );
    return kept?.cell ?? undefined;
  }

  // --- what a file cannot do ---

  readonly createTrace = readOnly;
  readonly edit = readOnly;
  readonly exportTrace = readOnly;
  readonly savePlaylist = readOnly;
  readonly experiment = readOnly;
  readonly decode = readOnly;
  readonly lesson = readOnly;
  readonly exportLesson = readOnly;
  readonly answer = readOnly;
  readonly claims = readOnly;
  readonly claim = readOnly;
  readonly audits = readOnly;
  readonly audit = readOnly;
  readonly sendAudit = readOnly;
  readonly auditCell = readOnly;
  readonly exportAudit = readOnly;
  readonly watchRun = readOnly;
  readonly watchTrace = readOnly;
  readonly watchAttention = readOnly;

  lessons(): Promise<api.LessonSummary[]> {
    return Promise.resolve([]);
  }

  watch(): Promise<null> {
    return Promise.resolve(null);
  }

  // --- chunks ---

  private answers(step: number): Promise<StepAnswers> {
    const packed = this.data.steps[step];
    if (packed === undefined) return Promise.reject(leftOut('saved.noStep'));
    return kept(this.chunks, step, () => unpacked<StepAnswers>(packed));
  }

  private valuesOf(step: number): Promise<Numbers> {
    const packed = this.data.values[step];
    if (packed === undefined) return Promise.reject(leftOut('saved.noValues'));
    return kept(this.numbers, step, async () => {
      const bytes = await inflated(packed.data);
      return packed.dtype === 'float64' ? new Float64Array(bytes) : new Float32Array(bytes);
    });
  }

  /** The cell that a place shows: that of a view or of an operand belongs to another step. */
  private async find(place: api.CellPlace, operand: number | null): Promise<[number, number]> {
    const { trace } = await this.opened;
    const info = trace.steps[place.step]!;
    const { shows, operands } = await this.answers(place.step);
    const shape = operand === null ? info.shape : info.operands[operand]!.shape;
    const at = placeOf(shape, place.index);
    const cells = operand === null ? shows : operands[operand]!;
    return cells === null ? [place.step, at] : cellAt(cells, at);
  }

  /** Makes links to cells, as the formulas of a step name them. */
  private async linker(seenFrom: number): Promise<Link> {
    const { trace, symbols } = await this.opened;
    const { symbols: own } = await this.answers(seenFrom);
    return (step, at, value, name) =>
      cellRef(
        trace,
        step,
        at,
        value,
        name ?? nameOf(trace.steps[step]!, own[step] ?? symbols[step]!, at),
      );
  }

  /** Puts cells in the place of references in what is known about a step. */
  private async reviver(of: number): Promise<(packed: unknown) => unknown> {
    const link = await this.linker(of);
    const { reads } = await this.answers(of);
    const there = new Map<number, Numbers>();
    for (const step of new Set([...reads, of])) {
      if (step in this.data.values) there.set(step, await this.valuesOf(step));
    }
    const revive = (packed: unknown): unknown => {
      if (Array.isArray(packed)) return packed.map(revive);
      if (packed === null || typeof packed !== 'object') return packed;
      if ('$' in packed) {
        const [step, at, value, name] = packed.$ as Reference;
        return link(step, at, value ?? api.fromNumber(there.get(step)?.[at] ?? NaN), name);
      }
      return Object.fromEntries(Object.entries(packed).map(([key, part]) => [key, revive(part)]));
    };
    return revive;
  }

  /** A sum with its factors in numbers, and all of its terms where they follow from these. */
  private async sumOf(
    packed: unknown,
    of: number,
  ): Promise<api.SumInfo & { terms?: api.TermInfo[] }> {
    const link = await this.linker(of);
    const { factors, products: given, after, ...sum } = packed as PackedSum;
    const rows: number[][] = [];
    const refs: (api.CellRef[] | null)[] = [];
    for (const factor of factors) {
      if (Array.isArray(factor)) {
        rows.push(factor.map(api.toNumber));
        refs.push(null);
        continue;
      }
      const cells = Array.from({ length: countOf(factor) }, (_, at) => cellAt(factor, at));
      const row: number[] = [];
      for (const [step, place] of cells) row.push((await this.valuesOf(step))[place]!);
      rows.push(row);
      const names = 'names' in factor ? factor.names : undefined;
      refs.push(cells.map(([step, at], k) => link(step, at, api.fromNumber(row[k]!), names?.[k])));
    }
    const products = given?.map(api.toNumber) ?? (rows[0] ?? []).map((a, k) => a * rows[1]![k]!);
    const wire = (row: number[]) => row.map(api.fromNumber);
    const whole = { ...sum, factors: rows.map(wire), products: wire(products) };
    if (after === null || rows.length !== 2) return whole;
    return { ...whole, terms: termsOf(rows, refs, products, after.map(api.toNumber)) };
  }
}

/** The one trace of the page. */
export const TRACE = 'saved';

export function leftOut(key: Parameters<typeof t>[0]): Refused {
  return new Refused(404, { detail: t(key), zh: null, code: null, figures: {} });
}

function kept<K, V>(cache: Map<K, Promise<V>>, key: K, make: () => Promise<V>): Promise<V> {
  let found = cache.get(key);
  if (found === undefined) {
    found = make();
    cache.set(key, found);
  }
  return found;
}

async function unpacked<T>(text: string): Promise<T> {
  return JSON.parse(new TextDecoder().decode(await inflated(text))) as T;
}

/** The bytes behind base64 of zlib's format. */
export async function inflated(text: string): Promise<ArrayBuffer> {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).arrayBuffer();
}

/** The position of a cell when its tensor is read row by row. */
export function placeOf(shape: readonly number[], index: readonly number[]): number {
  return shape.reduce((place, size, axis) => place * size + (index[axis] ?? 0), 0);
}

export function indexOf(shape: readonly number[], place: number): number[] {
  const index: number[] = [];
  for (const size of shape.toReversed()) {
    index.unshift(place % size);
    place = Math.floor(place / size);
  }
  return index;
}

export function cellAt(cells: Cells, at: number): [step: number, place: number] {
  if ('pairs' in cells) return [cells.pairs[2 * at]!, cells.pairs[2 * at + 1]!];
  const { step, base, sizes, strides } = cells;
  return [step, indexOf(sizes, at).reduce((sum, k, axis) => sum + k * strides[axis]!, base)];
}

function countOf(cells: Cells): number {
  if ('pairs' in cells) return cells.pairs.length / 2;
  return cells.sizes.reduce((product, size) => product * size, 1);
}

function ownersOf(cells: Cells): Set<number> {
  if ('pairs' in cells) return new Set(cells.pairs.filter((_, at) => at % 2 === 0));
  return new Set([cells.step]);
}

/** The places that a cell's name has: an axis of size 1 is never written. */
function writtenPlaces(shape: readonly number[], index: readonly number[]): number[] {
  return index.filter((_, axis) => shape[axis] !== 1);
}

function nameOf({ shape }: api.StepInfo, symbol: string, at: number): string {
  const places = writtenPlaces(shape, indexOf(shape, at));
  return places.length > 0 ? `${symbol}[${places.join(', ')}]` : symbol;
}

function cellRef(
  trace: api.TraceInfo,
  number: number,
  at: number,
  value: api.WireNumber,
  name: string,
): api.CellRef {
  const step = trace.steps[number]!;
  const index = indexOf(step.shape, at);
  return {
    step: number,
    index,
    name,
    role: step.role,
    value,
    labels: step.labels.map((list, axis) =>
      list === null ? null : (trace.labels[list]![index[axis]!] ?? null),
    ),
  };
}

/** The fields of one card. */
function fieldsAt({ shared, each, zh }: PackedCards, at: number): Record<string, unknown> {
  const own = Object.entries(each).map(([field, values]) => [field, values[at]]);
  const chinese = setting.language === 'zh' ? Object.entries(zh) : [];
  const said = chinese.flatMap(([field, values]) =>
    String(at) in values ? [[field, values[at]]] : [],
  );
  return { ...shared, ...Object.fromEntries(own), ...Object.fromEntries(said) };
}

/** What follows from the number itself, on the card of a number that was not computed. */
function fillGiven(card: api.CardInfo, { dtype, shape }: api.StepInfo): void {
  const { value, index } = card.cell;
  const number = api.toNumber(value);
  const digits = formatNumber(number, 9).replaceAll('−', '-');
  card.exact = dtype === 'bool' ? (number === 0 ? 'False' : 'True') : digits;
  card.recomputed = value;
  const tex: string | string[] = card.tex;
  if (Array.isArray(tex)) card.tex = tex.join(writtenPlaces(shape, index).join(','));
}

function termsOf(
  rows: number[][],
  refs: (api.CellRef[] | null)[],
  products: number[],
  after: number[],
): api.TermInfo[] {
  const whole = [...products, ...after]
    .filter(Number.isFinite)
    .reduce((s, x) => s + Math.abs(x), 0);
  const share = (value: number) =>
    Number.isFinite(value) ? Math.min(1, Math.abs(value) / (whole || 1)) : 1;
  const inBrackets = (value: number) =>
    value < 0 ? `(${formatNumber(value)})` : formatNumber(value);
  const multiplied = products.map((value, k): api.TermInfo => {
    const cells = refs.map((row) => row?.[k] ?? null);
    const texts = rows.map((row) => inBrackets(row[k]!));
    return {
      value: api.fromNumber(value),
      symbols: cells.map((cell) => cell?.name ?? '…').join('·'),
      numbers: texts.join(' × '),
      pieces: [
        { text: texts[0]!, cell: cells[0]! },
        { text: ' × ', cell: null },
        { text: texts[1]!, cell: cells[1]! },
      ],
      share: share(value),
      cells: cells.filter((cell) => cell !== null),
    };
  });
  const others = after.map((value): api.TermInfo => {
    const numbers = formatNumber(value);
    const piece = { text: numbers, cell: null };
    const own = { symbols: numbers, numbers, pieces: [piece], cells: [] };
    return { ...own, value: api.fromNumber(value), share: share(value) };
  });
  return [...multiplied, ...others];
}
