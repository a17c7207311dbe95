/**
 * Links: what stands after the `#`, read and written. Pure: `route.svelte.ts` joins it to the page.
 *
 *     #/                                       the start
 *     #/en-de?text=…&step=encoder.…scores&lead=0,1&cell=0,1,2,3&view=attention&edits=…
 *         …&step=…weights&cell=0,1,2,3&of=…scores      the card of one step beside another
 *     #/trace/ID?step=…                        a trace that no text restores: a module's, a lesson's
 *     #/lesson · #/lesson/illustrated/4        the walk, steps counted from 1
 *     #/en-de?text=…&view=model                the picture of the model
 *     #/decoding · #/training
 *
 * Traces live as long as the server keeps them, so a link holds what they were made from. An edit
 * is `step[index]=value`, several are joined by `;`. `lang=zh` where the page is Chinese.
 */

import type { EditInput, Language } from './api';
import type { View } from './session.svelte';

export type TraceOrigin =
  | { kind: 'run'; model: string; text: string; target: string | null; edits: EditInput[] }
  | { kind: 'id'; id: string };

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
  walk: { lesson: string; step: number } | null;
  language: Language | null;
}

const VIEWS: readonly View[] = ['model', 'map', 'attention', 'decoding', 'walk'];

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
    language: language === 'zh' || language === 'en' ? language : null,
  };
  const [first, second, third] = parts;
  if (first === undefined) return link;
  if (first === 'lesson') {
    const walk = second === undefined ? null : { lesson: second, step: toStep(third) };
    return { ...link, view: 'walk', walk };
  }
  if (second === undefined && (first === 'decoding' || first === 'training')) {
    return { ...link, view: first };
  }
  const view = VIEWS.find((one) => one === values.get('view')) ?? 'map';
  const walk =
    view === 'walk' ? { lesson: 'run', step: toStep(values.get('at') ?? undefined) } : null;
  if (first === 'trace' && second !== undefined) {
    return { ...link, view, walk, origin: { kind: 'id', id: second } };
  }
  const text = values.get('text');
  if (text === null || text === '') return link;
  const edits = parseEdits(values.get('edits') ?? '');
  const target = values.get('target');
  return { ...link, view, walk, origin: { kind: 'run', model: first, text, target, edits } };
}

export function formatLink(link: Link): string {
  const values = new URLSearchParams();
  const { origin } = link;
  let path = '';
  if (link.view === 'walk' && link.walk?.lesson !== 'run') {
    path = 'lesson';
    if (link.walk !== null)
      path += `/${encodeURIComponent(link.walk.lesson)}/${link.walk.step + 1}`;
  } else if (link.view === 'training' || (link.view === 'decoding' && origin === null)) {
    path = link.view;
  } else if (link.view !== 'start' && origin !== null) {
    path = addOrigin(origin, values);
    if (link.step !== null) values.set('step', link.step);
    if (link.lead.some((place) => place !== 0)) values.set('lead', link.lead.join(','));
    if (link.cell !== null) values.set('cell', link.cell.join(','));
    if (link.of !== null) values.set('of', link.of);
    if (link.view !== 'map') values.set('view', link.view);
    if (link.view === 'walk' && link.walk !== null) values.set('at', String(link.walk.step + 1));
  }
  if (link.language === 'zh') values.set('lang', 'zh');
  const search = readable(values.toString());
  return `#/${path}${search === '' ? '' : `?${search}`}`;
}

function addOrigin(origin: TraceOrigin, values: URLSearchParams): string {
  if (origin.kind === 'id') return `trace/${encodeURIComponent(origin.id)}`;
  values.set('text', origin.text);
  if (origin.target !== null) values.set('target', origin.target);
  if (origin.edits.length > 0) values.set('edits', formatEdits(origin.edits));
  return encodeURIComponent(origin.model);
}

function formatEdits(edits: EditInput[]): string {
  return edits.map(({ step, index, value }) => `${step}[${index.join(',')}]=${value}`).join(';');
}

function parseEdits(text: string): EditInput[] {
  return text.split(';').flatMap((one) => {
    const found = /^(.+)\[([\d,]*)\]=(.+)$/.exec(one);
    if (found === null) return [];
    const [, step = '', index = '', value = ''] = found;
    const number = Number(value);
    const wire = Number.isFinite(number) ? number : value;
    if (typeof wire === 'string' && wire !== 'NaN' && wire !== 'Infinity' && wire !== '-Infinity') {
      return [];
    }
    return [{ step, index: numbers(index) ?? [], value: wire }];
  });
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
  return search.replace(/%2C/g, ',').replace(/%5B/g, '[').replace(/%5D/g, ']');
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
