/**
 * The address bar and the session, kept in step: every state has a link, and back goes back.
 *
 * Another place (trace, step, cell, view, step of a lesson) is a new entry of the history; another
 * slice, edit or language only changes the present one.
 */

import type { TraceInfo } from './api';
import { formatLink, parseLink, type Link, type TraceSource } from './link';
import type { Session } from './session.svelte';
import { setting } from './setting.svelte';

/** Start following; to be called once, while the page is being set up. */
export function followRoute(session: Session): void {
  let goingThere = true;
  let written = '';
  let place = '';
  /** Counts the visits: only the newest may write. */
  let visits = 0;

  async function go(): Promise<void> {
    const visit = ++visits;
    goingThere = true;
    session.cancel(); // whatever the visit before is waiting for
    const isThere = await show(session, parseLink(location.hash), () => visit === visits);
    if (visit !== visits) return;
    goingThere = false;
    if (isThere) write(true);
    else settle(); // the address stays, so that the page can be loaded again
  }

  /** Take what the page shows as known: only another state is written. */
  function settle(): void {
    const link = linkOf(session);
    written = formatLink(link);
    place = placeOf(link);
  }

  function write(replace: boolean): void {
    const link = linkOf(session);
    const hash = formatLink(link);
    const there = placeOf(link);
    if (hash !== written && hash !== location.hash) {
      const isNew = !replace && there !== place;
      history[isNew ? 'pushState' : 'replaceState'](null, '', hash);
    }
    settle();
  }

  $effect(() => {
    const hash = formatLink(linkOf(session));
    if (!goingThere && !session.isFollowing && hash !== written) write(false);
  });

  $effect(() => {
    const onpop = () => void go();
    addEventListener('popstate', onpop);
    return () => removeEventListener('popstate', onpop);
  });

  session.view = parseLink(location.hash).view; // a link shows its own screen while it loads
  void session.loadModels().then(go);
}

/** The link to what the page shows now. */
export function linkOf(session: Session): Link {
  const { trace, step, cell } = session;
  const isElsewhere = trace !== null && cell !== null && cell.step !== step;
  return {
    view: session.view,
    source: trace === null ? null : sourceOf(session, trace),
    step: trace === null || step === null ? null : trace.steps[step]!.name,
    lead: session.lead,
    cell: cell?.index ?? null,
    of: isElsewhere ? trace.steps[cell.step]!.name : null,
    walk: session.walk,
    language: setting.language,
  };
}

/** The whole address of it, to be copied. */
export function addressOf(session: Session): string {
  return new URL(formatLink(linkOf(session)), location.href).href;
}

function sourceOf(session: Session, trace: TraceInfo): TraceSource {
  if (!session.canRun(trace.model)) return { kind: 'id', id: trace.id };
  const edits = trace.edits.map(({ step, index, value }) => ({ step, index, value }));
  const target = session.targetOf(trace);
  return { kind: 'run', model: trace.model, text: trace.text, target, edits };
}

/** What makes a state another place to come back to. */
function placeOf(link: Link): string {
  const { source } = link;
  const trace =
    source === null ? '' : source.kind === 'id' ? source.id : source.model + source.text;
  return JSON.stringify([link.view, trace, link.step, link.cell, link.of, link.walk]);
}

/**
 * Show what a link says; where something of it is not there, the rest. False where something went
 * wrong; a visit that is not wanted any more ends.
 */
async function show(session: Session, link: Link, isWanted: () => boolean): Promise<boolean> {
  if (link.language !== null && link.language !== setting.language) {
    setting.setLanguage(link.language);
  }
  session.walk = link.walk;
  if (link.source === null) {
    session.view = link.view;
    return true;
  }
  const isOpen = await openSource(session, link, link.source);
  if (!isWanted()) return false;
  if (!isOpen) {
    // Nothing to show, unless the reader has run something else meanwhile.
    if (session.trace === null && session.busy === null) session.view = 'start';
    return false;
  }
  session.view = link.view;
  return session.problem === null;
}

/** Open what a link says at the step and the cell that it names, or go there in the open trace. */
async function openSource(session: Session, link: Link, source: TraceSource): Promise<boolean> {
  const { trace } = session;
  if (trace !== null && isSource(session, trace, source)) {
    await session.goTo(link);
    return true;
  }
  if (source.kind === 'id') return session.open(source.id, link.view, link);
  const { model, text, target, edits } = source;
  return session.run(model, text, target, edits, link.view, link);
}

function isSource(session: Session, trace: TraceInfo, source: TraceSource): boolean {
  if (source.kind === 'id') return trace.id === source.id;
  return isSame(sourceOf(session, trace), source);
}

function isSame(one: TraceSource, other: TraceSource): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
