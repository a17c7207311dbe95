/** The parts of a run that a cell stands in, and what can be put in their place. */

import { headAxis, layerName, layerPath, placeName } from '../edit/words';
import { isWholeType } from '../edit/entry';
import type { EditInput, StepInfo, TraceInfo } from '../lib/api';
import { t } from '../lib/i18n';
import type { Place } from '../lib/place';

export type Put = 'off' | 'mean' | 'data' | 'other';

export interface Region {
  key: 'number' | 'row' | 'column' | 'head' | 'step' | 'layer';
  name: string;
  step: string;
  index: (number | null)[];
  puts: Put[];
}

/** From the smallest to the largest; what is the same as a smaller one is left out. */
export function regionsOf(
  trace: TraceInfo,
  place: Place,
  other: string | null,
  hasExamples = true,
): Region[] {
  const step = trace.steps[place.step]!;
  const [rank, { index }] = [step.shape.length, place];
  const found: Region[] = [
    region('number', t('menu.number'), step, index),
    ...(rank > 1 && step.shape[rank - 1]! > 1
      ? [region('row', nameAt(rank - 2), step, index.with(rank - 1, null as never))]
      : []),
    ...(rank > 1 && step.shape[rank - 2]! > 1
      ? [region('column', nameAt(rank - 1), step, index.with(rank - 2, null as never))]
      : []),
    ...headOf(),
    region(
      'step',
      t('menu.step', { name: step.short }),
      step,
      index.map(() => null),
    ),
    ...layerOf(),
  ];
  return found.filter(({ puts }) => puts.length > 0);

  function region(key: Region['key'], name: string, of: StepInfo, at: (number | null)[]): Region {
    return { key, name, step: of.name, index: at, puts: putsFor(of, other, hasExamples) };
  }

  function nameAt(axis: number): string {
    return placeName(trace, step, axis, index[axis]!);
  }

  /** A head is what it hands on: its context, where the module has one. */
  function headOf(): Region[] {
    const axis = headAxis(trace, step);
    if (axis < 0) return [];
    const context = trace.steps.find(
      (one) => one.module === step.module && one.short === 'context' && headAxis(trace, one) >= 0,
    );
    const of = context ?? step;
    const there = headAxis(trace, of);
    const at = of.shape.map((_, own) => (own === there ? index[axis]! : null));
    return [region('head', nameAt(axis), of, at)];
  }

  function layerOf(): Region[] {
    const path = layerPath(step.module);
    if (path === null || step.role !== 'activation') return [];
    const name = layerName(path)!;
    return [{ key: 'layer', name, step: path, index: [], puts: putsFor(step, other, hasExamples) }];
  }
}

/** Ids cannot be off, and only what a text makes has a mean over its positions. */
function putsFor(step: StepInfo, other: string | null, hasExamples: boolean): Put[] {
  const isNumber = !isWholeType(step.dtype);
  const means = hasExamples ? (['mean', 'data'] as const) : (['mean'] as const);
  return [
    ...(isNumber ? (['off'] as const) : []),
    ...(isNumber && step.role === 'activation' ? means : []),
    ...(other !== null && step.role !== 'parameter' ? (['other'] as const) : []),
  ];
}

export function editOf({ step, index }: Region, put: Put, other: string | null): EditInput {
  if (put === 'off') return { step, index, value: 0 };
  return put === 'other' ? { step, index, to: put, text: other } : { step, index, to: put };
}
