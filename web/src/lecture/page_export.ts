/**
 * A playlist as a page of its own: which traces, lessons and searches its views need, and where they
 * are in that page. What needs a server, or is more than a page can hold, is left out, and named.
 */

import type { DecodeRequest, PlaylistLesson, PlaylistRequest, PlaylistTrace } from '../lib/api';
import { formatLink, parseLink, type Link, type TraceOrigin } from '../lib/link';
import { shownAt } from '../lib/screen';
import type { Session } from '../lib/session.svelte';
import { setting } from '../lib/setting.svelte';
import { INITIAL } from '../decoding/settings';
import type { PinnedView } from './playlist';

export interface PageRequest {
  request: PlaylistRequest;
  /** The titles of the views that cannot be in it. */
  leftOut: string[];
}

/** Ask for all traces first, so that the page can be made of them. */
export async function requestFor(
  views: readonly PinnedView[],
  session: Session,
  signal: AbortSignal,
  ontold: (n: number) => void,
): Promise<PageRequest> {
  const needs = new Needs();
  const kept: PinnedView[] = [];
  const leftOut: string[] = [];
  for (const [at, view] of views.entries()) {
    ontold(at + 1);
    const link = parseLink(view.link);
    const there = await needs.add(link, session, signal);
    if (there === null) leftOut.push(view.title);
    else kept.push({ ...view, link: formatLink(there) });
  }
  const { traces, lessons, searches } = needs;
  const language = setting.language;
  return { request: { views: kept, traces, lessons, searches, language }, leftOut };
}

/** The server takes no more of each. */
const MOST = 16;

class Needs {
  readonly traces: PlaylistTrace[] = [];
  readonly lessons: PlaylistLesson[] = [];
  readonly searches: DecodeRequest[] = [];
  private readonly origins: string[] = [];

  /** The link to a view in the page; null where the page cannot show it. */
  async add(link: Link, session: Session, signal: AbortSignal): Promise<Link | null> {
    const { view, walk, origin } = link;
    if (view === 'experiments' || view === 'training') return null;
    if (origin !== null) return this.addTrace(link, origin, session, signal);
    if (view !== 'walk' || walk === null) return null;
    const { lesson: name, settings = [] } = walk;
    const isThere = this.lessons.some(
      (one) => one.name === name && String(one.settings) === String(settings),
    );
    if (!isThere && this.lessons.length >= MOST) return null;
    if (!isThere) this.lessons.push({ name, settings });
    return link;
  }

  private async addTrace(
    link: Link,
    origin: TraceOrigin,
    session: Session,
    signal: AbortSignal,
  ): Promise<Link | null> {
    const key = JSON.stringify(origin);
    const known = this.origins.indexOf(key);
    if (known < 0 && this.origins.length >= MOST) return null;
    const trace = await session.make(origin, signal);
    const at = known < 0 ? this.origins.push(key) - 1 : known;
    const entry = (this.traces[at] ??= { id: trace.id, places: [] });
    const { step, lead, cell } = shownAt(trace, link);
    const index = cell?.index ?? null;
    const of = cell === null || cell.step === step ? null : cell.step;
    entry.places = [...(entry.places ?? []), { step, lead, index, of }];
    if (link.view === 'decoding' && origin.kind === 'run')
      this.addSearch(origin.model, origin.text);
    return { ...link, origin: { kind: 'id', id: `saved-${at}` } };
  }

  /** One for each model and text: never more than there are traces. */
  private addSearch(model: string, text: string): void {
    const isThere = this.searches.some((one) => one.model === model && one.text === text);
    if (!isThere) this.searches.push({ ...INITIAL, model, text } as DecodeRequest);
  }
}
