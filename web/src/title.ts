/** What the browser's tab and the hidden heading call the page: what is shown on it. */

import { t } from './lib/i18n';
import { RUN } from './lib/link';
import type { Session } from './lib/session.svelte';
import { source } from './lib/source';
import { lessons } from './walk/lessons.svelte';

const NAME = 'Glassformer';
const LONGEST = 40;

export function titleOf(session: Session): string {
  if (session.view === 'start') return NAME;
  return [...partsOf(session), NAME].join(' · ');
}

/** The same in parts without the page's own name: what it is about, then the view. */
export function partsOf(session: Session): string[] {
  const { view, walk } = session;
  if (view === 'training') return [t('page.training')];
  if (view === 'claims' || view === 'audit') {
    return [...(session.item === null ? [] : [session.item.name]), t(`page.${view}`)];
  }
  if (view === 'walk' && walk?.lesson !== RUN) {
    const isHere = walk !== null && lessons.current?.name === walk.lesson;
    return [...(isHere ? [lessons.current!.title] : []), t('page.walk')];
  }
  const run = runOf(session);
  if (view === 'map') return [...run, t('map.view')];
  if (view === 'attention') return [...run, t('page.attention')];
  if (view === 'experiments') return [...run, t('experiments.title')];
  if (view === 'decoding') return [...run, t('page.decoding')];
  return run;
}

/** The text of the open run; of a module, which has none, its name. */
function runOf({ trace }: Session): string[] {
  if (source.saved?.title) return [source.saved.title];
  return trace === null ? [] : [trace.text.slice(0, LONGEST) || trace.model];
}
