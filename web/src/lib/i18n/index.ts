/**
 * The page's strings in both languages.
 *
 * Each area of the page has a pair of dictionaries, `<area>.en.ts` and `<area>.zh.ts`; the Chinese
 * one is typed by the English one, so that a missing string fails the build. Areas are merged here;
 * two areas must not use the same key (prefix them: `map.search`). The strings of a view that comes
 * when it is asked for come with it (`learn`).
 */

import type { Problem } from '../schema';
import { setting } from '../setting.svelte';
import { attentionEn } from './attention.en';
import { attentionZh } from './attention.zh';
import type { auditEn } from './audit.en';
import { cardEn } from './card.en';
import { cardZh } from './card.zh';
import type { claimsEn } from './claims.en';
import { courseEn } from './course.en';
import { courseZh } from './course.zh';
import { decodingEn } from './decoding.en';
import { decodingZh } from './decoding.zh';
import { editEn } from './edit.en';
import { editZh } from './edit.zh';
import { equationEn } from './equation.en';
import { equationZh } from './equation.zh';
import type { experimentsEn } from './experiments.en';
import type { exportingEn } from './exporting.en';
import { figureEn } from './figure.en';
import { figureZh } from './figure.zh';
import { lectureEn } from './lecture.en';
import { lectureZh } from './lecture.zh';
import { meaningEn } from './meaning.en';
import { meaningZh } from './meaning.zh';
import { mapEn } from './map.en';
import { mapZh } from './map.zh';
import { pageEn } from './page.en';
import { pageZh } from './page.zh';
import type { playlistEn } from './playlist.en';
import { problemsZh } from './problems.zh';
import type { startEn } from './start.en';
import type { tourEn } from './tour.en';
import type { trainingEn } from './training.en';
import { tryingEn } from './trying.en';
import { tryingZh } from './trying.zh';
import type { wordsEn } from './words.en';
import { walkEn } from './walk.en';
import { walkZh } from './walk.zh';

const en = {
  ...pageEn,
  ...equationEn,
  ...cardEn,
  ...editEn,
  ...attentionEn,
  ...decodingEn,
  ...walkEn,
  ...figureEn,
  ...courseEn,
  ...mapEn,
  ...meaningEn,
  ...lectureEn,
  ...tryingEn,
};

/** The strings that come with their views. */
type Later = typeof trainingEn &
  typeof claimsEn &
  typeof auditEn &
  typeof playlistEn &
  typeof experimentsEn &
  typeof startEn &
  typeof tourEn &
  typeof wordsEn &
  typeof exportingEn;

export type Key = keyof typeof en | keyof Later;

const zh: Record<keyof typeof en, string> = {
  ...pageZh,
  ...equationZh,
  ...cardZh,
  ...editZh,
  ...attentionZh,
  ...decodingZh,
  ...walkZh,
  ...figureZh,
  ...courseZh,
  ...mapZh,
  ...meaningZh,
  ...lectureZh,
  ...tryingZh,
};

const dictionaries: Record<'en' | 'zh', Record<string, string>> = { en: { ...en }, zh: { ...zh } };

/** Add the strings of a view that is loaded now. */
export function learn<Words extends Record<string, string>>(
  english: Words,
  chinese: Record<keyof Words, string>,
): void {
  Object.assign(dictionaries.en, english);
  Object.assign(dictionaries.zh, chinese);
}

/** A string of the page in its language; `{name}` is replaced by `values.name`. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return filled(dictionaries[setting.language][key] ?? key, values);
}

/** A refusal of the server in the page's language; where neither has Chinese, in English. */
export function refusal({ detail, zh: told, code, figures }: Problem): string {
  if (setting.language === 'en') return detail;
  const ours = code && problemsZh[code];
  return ours ? filled(ours, figures) : (told ?? detail);
}

function filled(text: string, values: Record<string, string | number>): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** A label of an axis: tokens as they are, the trace's `head 2` by its word, counted from 1. */
export function axisLabel(label: string): string {
  const head = /^head (\d+)$/.exec(label);
  return head === null ? label : t('equation.headLabel', { head: Number(head[1]) + 1 });
}
