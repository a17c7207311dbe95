/** Why a search did what it did with a candidate: sentences whose numbers are the ledger's. */

import type { DecodeAnswer } from '../lib/api';
import { t } from '../lib/i18n';
import { formatNumber } from '../matrix/numbers';
import type { Settings } from './settings';
import { endOf, firstDropped, lastKept, parentOf, type Spot } from './ledger';

export interface Search {
  answer: DecodeAnswer;
  settings: Settings;
  way: Set<string>;
}

/** All that there is to say about one candidate. */
export function why(search: Search, spot: Spot): string[] {
  const lines = [origin(search, spot)];
  if (search.settings.search === 'sampling') lines.push(...drawn(search, spot));
  else if (search.settings.search === 'greedy') lines.push(...greedily(search, spot));
  else lines.push(...byBeam(search, spot));
  return lines;
}

/** A token so that its spaces show. */
export function visible(token: string): string {
  return token.replaceAll('\n', '⏎').replace(/^ /, '␣').replace(/ $/, '␣') || '∅';
}

/** Where its sum comes from. */
function origin({ answer }: Search, spot: Spot): string {
  const candidate = answer.steps[spot.step].candidates[spot.place];
  const parent = parentOf(answer.steps, spot);
  const values = {
    token: visible(candidate.text),
    p: formatNumber(Math.exp(candidate.log_probability)),
    log: formatNumber(candidate.log_probability),
    total: formatNumber(candidate.total),
  };
  if (parent === null) return t('decoding.whyFirst', values);
  return t('decoding.whyToken', {
    ...values,
    beam: answer.steps[spot.step].beams[candidate.parent] ?? '',
    before: formatNumber(candidate.total - candidate.log_probability),
  });
}

function byBeam(search: Search, spot: Spot): string[] {
  const { answer, settings } = search;
  const step = answer.steps[spot.step];
  const candidate = step.candidates[spot.place];
  const rank = { rank: spot.place + 1, n: step.candidates.length, beam: settings.beam };
  const lines: string[] = [];
  if (candidate.fate === 'kept') {
    lines.push(t('decoding.whyKept', rank));
    const next = firstDropped(step);
    if (next !== null && next.total < candidate.total) {
      lines.push(
        t('decoding.whyNext', {
          token: visible(next.text),
          total: formatNumber(next.total),
          less: formatNumber(candidate.total - next.total),
        }),
      );
    }
  } else if (candidate.fate === 'ended') {
    lines.push(...endings(search, spot));
  } else {
    const kept = lastKept(step);
    const beatsIt = kept !== null && kept.total < candidate.total;
    lines.push(
      beatsIt
        ? t('decoding.whyDroppedEnd', rank)
        : t('decoding.whyDropped', {
            ...rank,
            total: kept === null ? '' : formatNumber(kept.total),
          }),
    );
  }
  return [...lines, ...overtaken(search, spot)];
}

function endings({ answer, settings }: Search, spot: Spot): string[] {
  const candidate = answer.steps[spot.step].candidates[spot.place];
  const isCut = spot.step + 1 === settings.max_new;
  const lines = [
    t(isCut ? 'decoding.whyEndedCut' : 'decoding.whyEnded', {
      total: formatNumber(candidate.total),
      penalty: formatNumber(candidate.score === 0 ? 1 : candidate.total / candidate.score),
      score: formatNumber(candidate.score),
      length: spot.step + 1,
      alpha: formatNumber(settings.length_penalty),
    }),
  ];
  answer.results.forEach((_, n) => {
    const end = endOf(answer, n);
    if (end?.step === spot.step && end.place === spot.place) {
      lines.push(t('decoding.whyResult', { n: n + 1 }));
    }
  });
  return lines;
}

/** Where the best result is not the best sum of a step: what a beam sees and greedy does not. */
function overtaken({ answer, way }: Search, spot: Spot): string[] {
  const { candidates } = answer.steps[spot.step];
  const winner = candidates.findIndex((_, place) => way.has(`${spot.step}:${place}`));
  if (winner <= 0 || (spot.place !== 0 && spot.place !== winner)) return [];
  return [
    t('decoding.whyOvertaken', {
      token: visible(candidates[0].text),
      total: formatNumber(candidates[0].total),
      winner: visible(candidates[winner].text),
      sum: formatNumber(candidates[winner].total),
      score: formatNumber(answer.results[0][1]),
    }),
  ];
}

function greedily({ answer }: Search, spot: Spot): string[] {
  const { candidates } = answer.steps[spot.step];
  const candidate = candidates[spot.place];
  if (candidate.fate === 'dropped') {
    const taken = candidates.find((other) => other.fate !== 'dropped');
    if (taken === undefined) return [];
    return [
      t('decoding.whyDroppedGreedy', {
        token: visible(taken.text),
        p: formatNumber(Math.exp(taken.log_probability)),
      }),
    ];
  }
  const lines = [t('decoding.whyKeptGreedy')];
  if (candidate.fate === 'ended') {
    lines.push(t('decoding.whyEndedPlain', { total: formatNumber(candidate.total) }));
  }
  return lines;
}

function drawn({ answer, settings }: Search, spot: Spot): string[] {
  const candidate = answer.steps[spot.step].candidates[spot.place];
  if (candidate.draw_probability === 0) return [t('decoding.whyFiltered')];
  const lines = [
    t('decoding.whyFiltersMade', {
      p: formatNumber(Math.exp(candidate.log_probability)),
      temperature: formatNumber(settings.temperature),
      drawn: formatNumber(candidate.draw_probability ?? 0),
    }),
  ];
  if (candidate.fate !== 'dropped') lines.push(t('decoding.whyDrawn', { seed: settings.seed }));
  if (candidate.fate === 'ended') {
    lines.push(t('decoding.whyEndedPlain', { total: formatNumber(candidate.total) }));
  }
  return lines;
}
