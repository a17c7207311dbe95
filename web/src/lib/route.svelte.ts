/**
 * The address bar and the session, kept in step: every state has a link, and back goes back.
 *
 * Another place (trace, step, cell, view, step of a lesson) is a new entry of the history; another
 * slice, edit or language only changes the present one.
 */

import type { TraceInfo } from './api';
import { plainEdit } from './edit_text';
import { t } from './i18n';
import { lecture } from './lecture.svelte';
import { formatLink, parseLink, TABS, type Link, type TraceOrigin } from './link';
import { findStep } from './screen';
import type { Session } from './session.svelte';
import { setting } from './setting.svelte';
import { source } from './source';

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
    session.isVisiting = true;
    session.cancel(); // whatever the visit before is waiting for
    const isThere = await show(session, linkHere(), () => visit === visits);
    if (visit !== visits) return;
    goingThere = false;
    session.isVisiting = false;
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

  // A link shows its own screen while it loads: the lesson or claim that it names, not their list.
  const link = linkHere();
  take(session, link);
  session.view = link.view;
  void session.loadModels().then(go);
}

/** What the address says; a saved page has no start, and shows its trace there. */
function linkHere(): Link {
  const link = parseLink(location.hash);
  if (source.saved === null || link.origin !== null) return link;
  const [first] = source.saved.playlist ?? [];
  if (first !== undefined && link.view !== 'walk') {
    return { ...parseLink(first.link), language: link.language, lecture: link.lecture };
  }
  if (first !== undefined && link.walk !== null) return link; // a lesson
  return { ...link, view: 'equation', origin: { kind: 'id', id: source.saved.trace } };
}

/** The link to what the page shows now. */
export function linkOf(session: Session): Link {
  const { trace, step, cell } = session;
  const isElsewhere = trace !== null && cell !== null && cell.step !== step;
  return {
    view: session.view,
    origin: trace === null ? null : originOf(session, trace),
    step: trace === null || step === null ? null : trace.steps[step]!.name,
    lead: session.lead,
    cell: cell?.index ?? null,
    of: isElsewhere ? trace.steps[cell.step]!.name : null,
    walk: session.walk,
    item: session.item,
    other: trace === null ? null : session.other,
    tab: session.view === 'experiments' ? session.tab : null,
    language: setting.language,
    lecture: lecture.isOn,
  };
}

/** The whole address of it, to be copied. */
export function addressOf(session: Session): string {
  return new URL(formatLink(linkOf(session)), location.href).href;
}

function originOf(session: Session, trace: TraceInfo): TraceOrigin {
  if (!session.canRun(trace.model)) return { kind: 'id', id: trace.id };
  const edits = trace.edits.map(plainEdit);
  const target = session.targetOf(trace);
  return { kind: 'run', model: trace.model, text: trace.text, target, edits };
}

/** What makes a state another place to come back to. */
function placeOf(link: Link): string {
  const { origin } = link;
  const trace =
    origin === null ? '' : origin.kind === 'id' ? origin.id : origin.model + origin.text;
  return JSON.stringify([
    link.view,
    trace,
    link.step,
    link.cell,
    link.of,
    link.walk,
    link.tab,
    link.item,
  ]);
}

/**
 * Show what a link says; where something of it is not there, the rest. False where something went
 * wrong; a visit that is not wanted any more ends.
 */
async function show(session: Session, link: Link, isWanted: () => boolean): Promise<boolean> {
  take(session, link);
  if (link.origin === null) {
    session.cards.close(); // a card of the view before
    session.view = link.view;
    return true;
  }
  const isOpen = await openOrigin(session, link, link.origin);
  if (!isWanted()) return false;
  session.other = link.other;
  if (!isOpen && source.saved !== null) {
    await showSaved(session, source.saved.trace);
    return false;
  }
  if (!isOpen) {
    // Nothing to show, unless the reader has run something else meanwhile.
    if (session.trace === null && session.busy === null) session.view = 'start';
    return false;
  }
  session.view = link.view;
  if (link.step !== null && session.trace !== null && findStep(session.trace, link.step) === null) {
    session.problem ??= t('page.noStep', { step: link.step });
  }
  return session.problem === null;
}

/** Take from a link what needs no answer of the server. */
function take(session: Session, link: Link): void {
  if (link.language !== null) setting.language = link.language; // its author's choice, not to be kept
  lecture.isOn = link.lecture && link.view !== 'start';
  session.walk = link.walk;
  session.item = link.item;
  session.tab = link.tab ?? TABS[0];
}

/** A saved page shows its trace, whatever the link named that is not in it. */
async function showSaved(session: Session, id: string): Promise<void> {
  const { problem } = session;
  await session.open(id);
  session.problem = problem;
}

/** Open what a link says at the step and the cell that it names, or go there in the open trace. */
async function openOrigin(session: Session, link: Link, origin: TraceOrigin): Promise<boolean> {
  const { trace } = session;
  if (trace !== null && isFrom(session, trace, origin)) {
    await session.goTo(link);
    return true;
  }
  if (origin.kind === 'id') return session.open(origin.id, link.view, link);
  const { model, text, target, edits } = origin;
  return session.run(model, text, target, edits, link.view, link);
}

function isFrom(session: Session, trace: TraceInfo, origin: TraceOrigin): boolean {
  if (origin.kind === 'id') return trace.id === origin.id;
  return isSame(originOf(session, trace), origin);
}

function isSame(one: TraceOrigin, other: TraceOrigin): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
