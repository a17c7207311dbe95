/**
 * Links: what stands after the `#`, read and written. Pure: `route.svelte.ts` joins it to the page.
 *
 *     #/                                       the start
 *     #/en-de?text=…&step=encoder.…scores&lead=0,1&cell=0,1,2,3&view=attention&edits=…
 *         …&step=…weights&cell=0,1,2,3&of=…scores      the card of one step beside another
 *     #/trace/ID?step=…                        a trace that no text restores: a module's, a lesson's
 *     #/lesson · #/lesson/illustrated/4        the walk, steps counted from 1
 *     #/lesson/order/2?set=encoding%3Drotary   a lesson with a switch turned
 *     #/en-de?text=…&view=map                  the picture of the model
 *     #/decoding · #/training
 *     #/claims · #/claims/C74?set=steps%3D20   the gallery, a claim with a switch turned; rows too: A09
 *     #/audit · #/audit/by-hand?at=position    the audits, one of them at a step or a number
 *
 *         …&view=experiments&tab=sweep&other=…         an experiment; another text to compare with
 *
 * Traces live as long as the server keeps them, so a link holds what they were made from; edits are
 * as in `edit_text.ts`. `lang=zh` where the page is Chinese, `lecture=1` in lecture mode.
 */

import type { EditInput, Language } from './api';
import { formatEdits, parseEdits } from './edit_text';
import type { View } from './session.svelte';

/** The experiments of the view of that name; the first is shown where none is named. */
export const TABS = ['words', 'compare', 'sweep', 'lens', 'parts'] as const;
export type Tab = (typeof TABS)[number];

/** What stands for a lesson's name in the walk over the open trace itself. */
export const RUN = 'run';

export type TraceOrigin =
  | { kind: 'run'; model: string; text: string; target: string | null; edits: EditInput[] }
  | { kind: 'id'; id: string };

/** A step of a lesson, from 0; `settings` are the switches that were turned. */
export interface Walk {
  lesson: string;
  step: number;
  settings?: string[];
}

/** What a view that is no trace's shows: a claim or row, an audited example. */
export interface Item {
  name: string;
  /** Switches that were turned. */
  settings?: string[];
  /** A place in it: `position` or `position[0,1]`. */
  at?: string;
}

/** The views that show an item, or their list where there is none. */
const SHOWING: readonly View[] = ['claims', 'audit'];

export interface Link {
  view: View;
  origin: TraceOrigin | null;
  /** The name of the selected step. */
  step: string | null;
  lead: number[];
  cell: number[] | null;
  /** The name of the step that the cell is of, where it is not the selected one. */
  of: string | null;
  /** The lesson of the walk; `run` is the walk through the open trace. */
  walk: Walk | null;
  item: Item | null;
  /** The text that the run is compared with. */
  other: string | null;
  /** Which of the experiments. */
  tab: Tab | null;
  language: Language | null;
  /** Whether it opens in lecture mode. */
  lecture: boolean;
}

const VIEWS: readonly View[] = ['map', 'equation', 'attention', 'decoding', 'walk', 'experiments'];

export function parseLink(hash: string): Link {
  const [path = '', search = ''] = split(hash.replace(/^#?\/?/, ''), '?');
  const parts = path.split('/').filter(Boolean).map(decode);
  const values = new URLSearchParams(search);
  const language = values.get('lang');
  const link: Link = {
    view: 'start',
    origin: null,
    step: values.get('step'),
    lead: numbers(values.get('lead')) ?? [],
    cell: numbers(values.get('cell')),
    of: values.get('of'),
    walk: null,
    item: null,
    other: values.get('other') || null,
    tab: TABS.find((one) => one === values.get('tab')) ?? null,
    language: language === 'zh' || language === 'en' ? language : null,
    lecture: values.get('lecture') === '1',
  };
  const [first, second, third] = parts;
  if (first === undefined) return link;
  if (first === 'lesson') {
    const settings = values.getAll('set');
    const walk: Walk | null =
      second === undefined
        ? null
        : { lesson: second, step: toStep(third), ...(settings.length > 0 && { settings }) };
    return { ...link, view: 'walk', walk };
  }
  const showing = SHOWING.find((one) => one === first);
  if (showing !== undefined && values.get('text') === null) {
    return { ...link, view: showing, item: second === undefined ? null : itemOf(second, values) };
  }
  if (second === undefined && (first === 'decoding' || first === 'training')) {
    return { ...link, view: first };
  }
  const view = VIEWS.find((one) => one === values.get('view')) ?? 'equation';
  const walk =
    view === 'walk' ? { lesson: 'run', step: toStep(values.get('at') ?? undefined) } : null;
  if (first === 'trace' && second !== undefined) {
    return { ...link, view, walk, origin: { kind: 'id', id: second } };
  }
  const text = values.get('text');
  if (text === null || text === '') return link;
  const edits = parseEdits(values.get('edits') ?? '', link.other);
  const target = values.get('target');
  return { ...link, view, walk, origin: { kind: 'run', model: first, text, target, edits } };
}

export function formatLink(link: Link): string {
  const values = new URLSearchParams();
  const { origin } = link;
  let path = '';
  if (link.view === 'walk' && link.walk?.lesson !== 'run') {
    path = 'lesson';
    if (link.walk !== null) {
      path += `/${encodeURIComponent(link.walk.lesson)}/${link.walk.step + 1}`;
      for (const one of link.walk.settings ?? []) values.append('set', one);
    }
  } else if (SHOWING.includes(link.view)) {
    path = link.view;
    if (link.item !== null) {
      path += `/${encodeURIComponent(link.item.name)}`;
      for (const one of link.item.settings ?? []) values.append('set', one);
      if (link.item.at !== undefined) values.set('at', link.item.at);
    }
  } else if (link.view === 'training' || (link.view === 'decoding' && origin === null)) {
    path = link.view;
  } else if (link.view !== 'start' && origin !== null) {
    path = addOrigin(origin, link.other, values);
    if (link.step !== null) values.set('step', link.step);
    if (link.lead.some((place) => place !== 0)) values.set('lead', link.lead.join(','));
    if (link.cell !== null) values.set('cell', link.cell.join(','));
    if (link.of !== null) values.set('of', link.of);
    if (link.view !== 'equation') values.set('view', link.view);
    if (link.view === 'experiments' && link.tab !== null) values.set('tab', link.tab);
    if (link.view === 'walk' && link.walk !== null) values.set('at', String(link.walk.step + 1));
  }
  if (link.language === 'zh') values.set('lang', 'zh');
  if (link.lecture && link.view !== 'start') values.set('lecture', '1');
  const search = readable(values.toString());
  return `#/${path}${search === '' ? '' : `?${search}`}`;
}

function addOrigin(origin: TraceOrigin, other: string | null, values: URLSearchParams): string {
  if (origin.kind === 'id') return `trace/${encodeURIComponent(origin.id)}`;
  values.set('text', origin.text);
  if (origin.target !== null) values.set('target', origin.target);
  if (other !== null) values.set('other', other);
  if (origin.edits.length > 0) values.set('edits', formatEdits(origin.edits, other));
  return encodeURIComponent(origin.model);
}

function itemOf(name: string, values: URLSearchParams): Item {
  const settings = values.getAll('set');
  const at = values.get('at');
  return { name, ...(settings.length > 0 && { settings }), ...(at !== null && { at }) };
}

function numbers(text: string | null): number[] | null {
  if (text === null) return null;
  if (text === '') return [];
  const found = text.split(',').map(Number);
  return found.every((one) => Number.isInteger(one) && one >= 0) ? found : null;
}

function toStep(text: string | undefined): number {
  const step = Number(text);
  return Number.isInteger(step) && step > 0 ? step - 1 : 0;
}

/** Characters that need no escape after the `?` of a hash, left as people write them. */
function readable(search: string): string {
  return search.replace(/%2C/g, ',').replace(/%5B/g, '[').replace(/%5D/g, ']').replace(/%2A/g, '*');
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function split(text: string, at: string): [string, string] {
  const place = text.indexOf(at);
  return place < 0 ? [text, ''] : [text.slice(0, place), text.slice(place + 1)];
}
