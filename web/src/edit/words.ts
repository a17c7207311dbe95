/** Edits in words: “head 3 of layer 1 off”. */

import { toNumber, type EditInput, type StepInfo, type TraceInfo } from '../lib/api';
import { t } from '../lib/i18n';
import { formatNumber } from '../matrix/numbers';

const SHOWN_TEXT = 24;

/** What an edit does, in the page's language. */
export function sayEdit(edit: EditInput, trace: TraceInfo): string {
  const part = partOf(edit, trace);
  const { to = 'value', value = 0, text } = edit;
  if (to === 'other') return t('region.fromOther', { part, text: cut(text ?? '') });
  if (to !== 'value') return t(to === 'mean' ? 'region.isMean' : 'region.isData', { part });
  const number = toNumber(value);
  return number === 0 && isRegion(edit)
    ? t('region.isOff', { part })
    : t('region.isSet', { part, value: formatNumber(number) });
}

export function isRegion({ index, step }: EditInput, trace?: TraceInfo): boolean {
  if (index.includes(null)) return true;
  return (
    index.length === 0 && (trace === undefined || !trace.steps.some(({ name }) => name === step))
  );
}

/** The part of the model that an edit is about. */
export function partOf(edit: EditInput, trace: TraceInfo): string {
  const step = trace.steps.find(({ name }) => name === edit.step);
  if (step === undefined) return layerName(edit.step) ?? edit.step;
  if (!edit.index.includes(null)) {
    return edit.index.length > 0 ? `${step.short}[${edit.index.join(', ')}]` : step.short;
  }
  const layer = layerName(step.module);
  const places = edit.index.flatMap((at, axis) =>
    at === null || (step.shape[axis] === 1 && axis !== headAxis(trace, step))
      ? []
      : [placeName(trace, step, axis, at)],
  );
  if (places.length === 0) places.push(t('region.all'));
  const head = headAxis(trace, step);
  const isHead = edit.index.every((at, axis) => (at !== null) === (axis === head));
  if (layer !== null && step.short === 'context' && isHead) {
    const isCross = step.module.includes('cross');
    return t(isCross ? 'region.crossHead' : 'region.headOf', { head: places[0]!, layer });
  }
  const [place, of] = [places.join(t('region.comma')), step.short];
  return layer === null ? t('region.of', { place, of }) : t('region.ofLayer', { place, of, layer });
}

/** The axis of the heads, −1 where there is none. */
export function headAxis(trace: TraceInfo, step: StepInfo): number {
  return step.labels.findIndex(
    (labels) => typeof labels === 'number' && /^head \d+$/.test(trace.labels[labels]?.[0] ?? ''),
  );
}

/** What a place on an axis is called: a head, a token, a row or a column. */
export function placeName(trace: TraceInfo, step: StepInfo, axis: number, at: number): string {
  const labels = step.labels[axis];
  const label = typeof labels === 'number' ? trace.labels[labels]?.[at] : undefined;
  const head = label === undefined ? null : /^head (\d+)$/.exec(label);
  if (head) return t('region.head', { at: Number(head[1]) + 1 });
  const isColumn = axis === step.shape.length - 1;
  if (label !== undefined) return t(isColumn ? 'region.toToken' : 'region.token', { token: label });
  return t(isColumn ? 'region.column' : 'region.row', { at });
}

/** `encoder.blocks.1.attention` → “encoder layer 2”, counted from 1 as everywhere on the page; null
 * outside of layers. */
export function layerName(path: string): string | null {
  const layer = layerPath(path);
  if (layer === null) return null;
  const at = Number(layer.slice(layer.lastIndexOf('.') + 1)) + 1;
  const side = /(?:^|\.)(encoder|decoder)\./.exec(layer)?.[1];
  if (side === 'encoder') return t('region.encoderLayer', { at });
  return side === 'decoder' ? t('region.decoderLayer', { at }) : t('region.layer', { at });
}

/** The path of the layer that a module belongs to: up to the first number of it. */
export function layerPath(path: string): string | null {
  return /^(?:.*?\.)?\d+(?=\.|$)/.exec(path)?.[0] ?? null;
}

function cut(text: string): string {
  return text.length > SHOWN_TEXT ? `${text.slice(0, SHOWN_TEXT - 1)}…` : text;
}
