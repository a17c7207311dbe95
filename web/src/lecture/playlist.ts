/**
 * A playlist: views in the order of a lecture, each a link with a title and a note in each language.
 *
 * Pure: `playlist.svelte.ts` keeps the one of the page. As a file it is JSON, which is read with care:
 * it may come from anywhere.
 */

import type { Language } from '../lib/api';
import { formatLink, parseLink, RUN, type Link } from '../lib/link';

export interface PinnedView {
  /** As in the address bar, without language and lecture mode. */
  link: string;
  title: string;
  note: Record<Language, string>;
}

export const MOST_VIEWS = 200;
export const LONGEST_TITLE = 200;
export const LONGEST_NOTE = 2_000;
export const MOST_BYTES = 1_000_000;
/** A text of 4,000 characters, escaped, and the edits. */
const LONGEST_LINK = 40_000;
const FORMAT = 'glassformer-playlist';
const VERSION = 1;

/** Why a file is none: the key of a sentence, and what stands in it. */
export class BadPlaylist extends Error {
  constructor(
    readonly reason:
      | 'notJson'
      | 'notPlaylist'
      | 'tooLarge'
      | 'tooMany'
      | 'newer'
      | 'badView'
      | 'badLink'
      | 'tooLong',
    readonly values: Record<string, string | number> = {},
  ) {
    super(reason);
  }
}

/** A link without what belongs to the moment and not to the view. */
export function plainLink(link: Link): string {
  return formatLink({ ...link, language: null, lecture: false });
}

/** Whether a place belongs to a view of the list: to its run, its lesson's step, its claim. */
export function belongs(here: Link, view: Link): boolean {
  const run = ({ origin }: Link) =>
    origin?.kind === 'run' ? [origin.model, origin.text] : (origin?.id ?? null);
  const of = (link: Link) => {
    const isLesson = link.view === 'walk' && link.walk?.lesson !== RUN;
    const [walk, item] = [link.walk, link.item?.name ?? null];
    return JSON.stringify([
      link.view,
      isLesson ? null : run(link),
      link.view === 'walk' ? [walk?.lesson, walk?.step] : null,
      item,
    ]);
  };
  return of(here) === of(view);
}

export function formatPlaylist(views: readonly PinnedView[]): string {
  return `${JSON.stringify({ format: FORMAT, version: VERSION, views }, null, 2)}\n`;
}

/** The views of a file; a BadPlaylist says what is wrong with it. */
export function parsePlaylist(text: string): PinnedView[] {
  if (text.length > MOST_BYTES) throw new BadPlaylist('tooLarge', { most: '1 MB' });
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    throw new BadPlaylist('notJson');
  }
  const { format, version, views } = fieldsOf(read);
  if (format !== FORMAT || !Array.isArray(views)) throw new BadPlaylist('notPlaylist');
  if (version !== VERSION) throw new BadPlaylist('newer');
  if (views.length > MOST_VIEWS) throw new BadPlaylist('tooMany', { most: MOST_VIEWS });
  return views.map((view, at) => viewOf(view, at + 1));
}

function viewOf(read: unknown, n: number): PinnedView {
  const { link, title, note } = fieldsOf(read);
  const notes = fieldsOf(note);
  const [en, zh] = [notes['en'] ?? '', notes['zh'] ?? ''];
  const texts = [link, title, en, zh];
  if (!texts.every((one) => typeof one === 'string')) throw new BadPlaylist('badView', { n });
  const limits = [LONGEST_LINK, LONGEST_TITLE, LONGEST_NOTE, LONGEST_NOTE];
  if (texts.some((one, at) => (one as string).length > limits[at]!)) {
    throw new BadPlaylist('tooLong', { n });
  }
  const there = parseLink(link as string);
  if (!(link as string).startsWith('#/') || there.view === 'start') {
    throw new BadPlaylist('badLink', { n });
  }
  return {
    link: plainLink(there),
    title: title as string,
    note: { en: en as string, zh: zh as string },
  };
}

function fieldsOf(read: unknown): Record<string, unknown> {
  return read !== null && typeof read === 'object' && !Array.isArray(read)
    ? (read as Record<string, unknown>)
    : {};
}

/** The list with one view at another place. */
export function moved<T>(list: readonly T[], from: number, to: number): T[] {
  const rest = list.filter((_, at) => at !== from);
  const one = list[from];
  const place = Math.max(0, Math.min(to, rest.length));
  return one === undefined ? rest : [...rest.slice(0, place), one, ...rest.slice(place)];
}

/** The note in a language, or in the other where there is none in it. */
export function noteOf({ note }: PinnedView, language: Language): string {
  return note[language] || note[language === 'en' ? 'zh' : 'en'];
}
