/** The lines of a run's metrics as curves, and what they say about its pace. */

import type { WatchInfo } from '../lib/api';
import { t, type Key } from '../lib/i18n';

export type Metric = WatchInfo['metrics'][number];

export interface Point {
  x: number;
  y: number;
}

export interface Curve {
  name: string;
  points: Point[];
}

/** What is no score, though it stands in the lines of an evaluation. */
const LOSSES = ['loss', 'valid_loss'];
const PREFIX = 'valid_';

/** One curve for each of these names that occurs, by updates. */
export function curves(metrics: Metric[], names: string[]): Curve[] {
  return names
    .map((name) => ({ name, points: points(metrics, name) }))
    .filter((curve) => curve.points.length > 0);
}

export function lossCurves(metrics: Metric[]): Curve[] {
  return curves(metrics, LOSSES);
}

/** The measures of the validation set, such as accuracy or BLEU, other than its loss. */
export function scoreNames(metrics: Metric[]): string[] {
  const names = new Set<string>();
  for (const metric of metrics) {
    for (const name of Object.keys(metric)) {
      if (name.startsWith(PREFIX) && !LOSSES.includes(name) && isNumber(metric[name]))
        names.add(name);
    }
  }
  return [...names];
}

/** The measures that have a name in the page's language. */
const NAMED: Record<string, Key> = {
  accuracy: 'training.accuracy',
  bleu: 'training.bleu',
  chrf: 'training.chrf',
  loss_per_byte: 'training.lossPerByte',
  bits_per_byte: 'training.bitsPerByte',
  perplexity: 'training.perplexity',
};

/** A measure's name as people write it. */
export function readable(name: string): string {
  const plain = name.replace(PREFIX, '');
  const key = NAMED[plain];
  return key === undefined ? plain.replaceAll('_', ' ') : t(key);
}

/** A curve smoothed: each point the mean of itself and its neighbours, `by` of them either side. */
export function smoothed(points: Point[], by: number): Point[] {
  if (by === 0) return points;
  return points.map(({ x }, n) => {
    const near = points.slice(Math.max(0, n - by), n + by + 1);
    return { x, y: near.reduce((sum, point) => sum + point.y, 0) / near.length };
  });
}

function points(metrics: Metric[], name: string): Point[] {
  return metrics.flatMap((metric) => {
    const { step, [name]: value } = metric;
    return isNumber(step) && isNumber(value) ? [{ x: step, y: value }] : [];
  });
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

export interface Pace {
  step: number;
  tokensPerSecond: number | null;
  /** Of the updates; null until there is a line to judge by. */
  secondsLeft: number | null;
  loss: number | null;
}

/** Where a run is, from its last report. */
export function pace(metrics: Metric[], total: number | null): Pace {
  const last = metrics.findLast((metric) => isNumber(metric.loss));
  if (last === undefined || !isNumber(last.step)) {
    return { step: 0, tokensPerSecond: null, secondsLeft: null, loss: null };
  }
  const seconds = isNumber(last.train_seconds) ? last.train_seconds : null;
  const secondsLeft =
    total === null || seconds === null || last.step === 0
      ? null
      : (seconds / last.step) * Math.max(0, total - last.step);
  return {
    step: last.step,
    tokensPerSecond: isNumber(last.tokens_per_s) ? last.tokens_per_s : null,
    secondsLeft,
    loss: isNumber(last.loss) ? last.loss : null,
  };
}
