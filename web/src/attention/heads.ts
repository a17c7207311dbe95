/** Which heads a trace has, and where their weights are. */

import { headAxis } from '../edit/words';
import { toNumber, type AttentionInfo, type TraceInfo } from '../lib/api';
import { source } from '../lib/source';
import { store } from '../matrix/store';
import { tileShape, type MatrixPlace } from '../matrix/tiles';
import type { Weights } from './weights';

export type Part = AttentionInfo['part'];

/** One head: an entry of `trace.attention` and a number. */
export interface Head {
  layer: AttentionInfo;
  head: number;
}

export interface Group {
  part: Part;
  layers: AttentionInfo[];
}

const PARTS: Part[] = ['encoder', 'decoder', 'cross'];

/** The layers with attention, by part, in the order of the model. */
export function groups(attention: AttentionInfo[]): Group[] {
  return PARTS.map((part) => ({
    part,
    layers: attention.filter((layer) => layer.part === part),
  })).filter(({ layers }) => layers.length > 0);
}

/** The places of the axes before queries and keys: the batch (if there is such an axis), the head. */
export function leadOf(trace: TraceInfo, { layer, head }: Head, batch: number): number[] {
  const n = trace.steps[layer.weights].shape.length - 2;
  return Array.from({ length: n }, (_, axis) => (axis === n - 1 ? head : batch));
}

/** The head that a step and its leading places show: of weights, or another step beside them. */
export function headAt(trace: TraceInfo, step: number | null, lead: number[]): Head | null {
  if (step === null) return null;
  const own = trace.attention.find(({ weights }) => weights === step);
  if (own !== undefined) return { layer: own, head: lead.at(-1) ?? 0 };
  const { module, shape } = trace.steps[step];
  const layer = trace.attention.find(
    ({ weights, n_heads }) =>
      trace.steps[weights].module === module &&
      shape.length === trace.steps[weights].shape.length &&
      shape.at(-3) === n_heads,
  );
  return layer === undefined ? null : { layer, head: lead.at(-1) ?? 0 };
}

/** Whether an edit took what a head hands on out of the run; its weights stay as they are. */
export function isOff(trace: TraceInfo, { layer, head }: Head): boolean {
  const { module } = trace.steps[layer.weights];
  return trace.edits.some((edit) => {
    const of = trace.steps.find(({ name }) => name === edit.step);
    if (of?.module !== module || of.short !== 'context' || edit.to !== 'value') return false;
    const axis = headAxis(trace, of);
    const isOnly = edit.index.every((at, own) => at === (own === axis ? head : null));
    return isOnly && toNumber(edit.value ?? 0) === 0;
  });
}

/** What each query position of a translator's decoder writes next: the token after it; null if
 * unknown. A language model is given its text, and may have continued it otherwise. */
export function writtenBy(
  trace: TraceInfo,
  layer: AttentionInfo,
  queries: readonly string[],
): (string | null)[] {
  const hasWords = trace.steps[layer.weights].labels.at(-2) !== null;
  const isTranslator = trace.attention.some(({ part }) => part === 'cross');
  if (layer.part === 'encoder' || !isTranslator || !hasWords) return queries.map(() => null);
  return queries.map((_, place) => queries[place + 1] ?? null);
}

export function placeOf(trace: TraceInfo, head: Head, batch: number): MatrixPlace {
  return {
    trace: trace.id,
    step: head.layer.weights,
    operand: null,
    lead: leadOf(trace, head, batch),
    transposed: false,
  };
}

export function sizeOf(trace: TraceInfo, layer: AttentionInfo): [number, number] {
  const [rows, columns] = trace.steps[layer.weights].shape.slice(-2);
  return [rows, columns];
}

/** What the positions of queries and keys are called; numbers where they have no names. */
export function tokensOf(trace: TraceInfo, layer: AttentionInfo): [string[], string[]] {
  const { labels } = trace.steps[layer.weights];
  const sizes = sizeOf(trace, layer);
  const name = (axis: 0 | 1): string[] => {
    const place = labels.at(axis - 2);
    const found = place === null || place === undefined ? undefined : trace.labels[place];
    return found ?? Array.from({ length: sizes[axis] }, (_, n) => String(n));
  };
  return [name(0), name(1)];
}

/** The weights of one head, from the page's store where a matrix is one tile. */
export async function load(trace: TraceInfo, head: Head, batch: number): Promise<Weights> {
  const [rows, columns] = sizeOf(trace, head.layer);
  const place = placeOf(trace, head, batch);
  const tile = tileShape(rows, columns);
  if (tile.rows === rows && tile.columns === columns) {
    const { values } = await store.load(place, 0, 0, rows, columns);
    return { values, rows, columns };
  }
  const { data } = await source.values(trace.id, { step: place.step, lead: [...place.lead] });
  return { values: data, rows, columns };
}
