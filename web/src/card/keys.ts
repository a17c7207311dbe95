/** Keys that act on the open card, wherever the focus is; Backspace and Escape are the page's. */

import { editing } from '../edit/editing.svelte';
import type { CardInfo, CellRef } from '../lib/api';
import { isFree } from '../lib/keys';
import type { Session } from '../lib/session.svelte';
import { source } from '../lib/source';

/** `[` to the largest contribution, `]` to the first dependent, F2 to edit. */
export function cardKey(event: KeyboardEvent, session: Session, card: CardInfo): void {
  if (!isFree(event) || editing.card !== null) return;
  const action = actionFor(event.key, session, card);
  if (action === null) return;
  event.preventDefault();
  action();
}

function actionFor(key: string, session: Session, card: CardInfo): (() => void) | null {
  switch (key) {
    case '[':
      return card.is_given ? null : () => void followLargest(session, card.cell);
    case ']':
      return goTo(session, session.dependents?.[0]?.cells[0]);
    case 'F2':
      if (!source.can.edit || session.isLesson) return null;
      return () => void editing.start(session, card.cell);
    default:
      return null;
  }
}

function goTo(session: Session, cell: CellRef | undefined): (() => void) | null {
  if (cell === undefined) return null;
  return () => void session.cards.explain({ step: cell.step, index: cell.index });
}

/** One step of "Follow the largest contribution": the two mean the same. */
async function followLargest(session: Session, cell: CellRef): Promise<void> {
  if (session.trace === null) return;
  const place = { step: cell.step, index: cell.index };
  const path = await source.path(session.trace.id, place).catch(() => []); // the card stays
  const onward = goTo(session, path[1]);
  if (session.card?.cell.name === cell.name) onward?.();
}
