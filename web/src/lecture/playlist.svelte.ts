/** The playlist of the page, which the browser remembers, and the view of it that is shown. */

import { formatLink, parseLink, RUN } from '../lib/link';
import { lecture } from '../lib/lecture.svelte';
import { linkOf } from '../lib/route.svelte';
import type { Session } from '../lib/session.svelte';
import { setting } from '../lib/setting.svelte';
import { source } from '../lib/source';
import { stepTitle } from '../lib/step_title';
import { partsOf } from '../title';
import { lessons } from '../walk/lessons.svelte';
import {
  formatPlaylist,
  LONGEST_TITLE,
  moved,
  MOST_BYTES,
  MOST_VIEWS,
  parsePlaylist,
  plainLink,
  type PinnedView,
} from './playlist';

const KEY = 'glassformer.playlist';

class Playlist {
  views = $state.raw<readonly PinnedView[]>([]);
  /** The view of it that a lecture is at; null: the lecture is not about the playlist. */
  at = $state<number | null>(null);
  /** The list before views were removed or another list was opened, until it is changed again. */
  before = $state.raw<readonly PinnedView[] | null>(null);

  /** What the browser remembers, or what a saved page holds; to be called once. */
  load(): void {
    this.views = source.saved === null ? remembered() : (source.saved.playlist ?? []);
  }

  /** Take a list over; false where it is longer than what can be read again. */
  set(views: readonly PinnedView[]): boolean {
    const text = formatPlaylist(views);
    if (text.length > MOST_BYTES) return false;
    this.views = views;
    this.before = null;
    try {
      localStorage.setItem(KEY, text);
    } catch {
      // storage is switched off or full: the list lasts until the page is closed
    }
    return true;
  }

  /** Add what the page shows; false where the list is full. */
  pin(session: Session): boolean {
    if (this.views.length >= MOST_VIEWS) return false;
    const link = plainLink(linkOf(session));
    const title = this.unlike(nameOf(session));
    return this.set([...this.views, { link, title, note: { en: '', zh: '' } }]);
  }

  /** A name that no other view has: the second of a name gets a number. */
  private unlike(name: string): string {
    const taken = new Set(this.views.map(({ title }) => title));
    for (let n = 1; ; n++) {
      const end = n === 1 ? '' : ` (${n})`;
      const title = name.slice(0, LONGEST_TITLE - end.length) + end;
      if (!taken.has(title)) return title;
    }
  }

  change(at: number, changed: Partial<PinnedView>): boolean {
    return this.set(
      this.views.map((view, place) => (place === at ? { ...view, ...changed } : view)),
    );
  }

  move(from: number, to: number): void {
    this.set(moved(this.views, from, to));
  }

  remove(at: number): void {
    this.replace(this.views.filter((_, place) => place !== at));
  }

  /** Another list in the place of this one, which `undo` brings back. */
  replace(views: readonly PinnedView[]): void {
    const before = this.views;
    if (this.set(views) && before.length > 0) this.before = before;
  }

  undo(): void {
    if (this.before !== null) this.set(this.before);
  }

  /** Where the list is, if the address shows one of its views. */
  find(): void {
    this.at = null;
    this.follow();
  }

  /** Back and on in the browser's history: to the view that the address now shows. */
  follow(): void {
    const here = plainLink(parseLink(location.hash));
    if (this.at !== null && this.views[this.at]?.link === here) return; // one of several alike
    const at = this.views.findIndex(({ link }) => link === here);
    if (at >= 0) this.at = at;
  }

  /** Show a view of the list; it is a place to come back from, as any link, unless it is brief. */
  show(at: number, isBrief = false): void {
    const view = this.views[at];
    if (view === undefined) return;
    this.at = at;
    const link = parseLink(view.link);
    const hash = formatLink({ ...link, language: setting.language, lecture: lecture.isOn });
    if (isBrief) location.replace(hash);
    else location.hash = hash;
  }
}

export const playlist = new Playlist();

/** What is shown, in a few words: the step or the view, then what it is about. */
function nameOf(session: Session): string {
  const [about = '', ...view] = partsOf(session);
  return [stepOf(session) ?? view, about].flat().join(' · ');
}

/** The step of an equation or of a lesson. */
function stepOf({ view, walk, trace, step }: Session): string | null {
  if (view === 'walk' && walk !== null && walk.lesson !== RUN)
    return lessons.current?.steps[walk.step]?.title ?? null;
  if (view !== 'equation' || trace === null || step === null) return null;
  return stepTitle(trace.steps[step]!);
}

function remembered(): PinnedView[] {
  try {
    const text = localStorage.getItem(KEY);
    return text === null ? [] : parsePlaylist(text);
  } catch {
    return []; // nothing, or nothing that this version can read
  }
}
