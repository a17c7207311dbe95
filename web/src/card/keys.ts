/** Keys that act on the open card, wherever the focus is; Backspace and Escape are the page's. */

import { editing } from '../edit/editing.svelte';
import { toNumber, type CardInfo, type CellRef } from '../lib/api';
import { isFree } from '../lib/keys';
import type { Session } from '../lib/session.svelte';
import { source } from '../lib/source';

/** `[` to the largest precedent, `]` to the first dependent, F2 to edit. */
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
      return goTo(session, largestPrecedent(card));
    case ']':
      return goTo(session, session.dependents?.[0]?.cells[0]);
    case 'F2':
      return source.can.edit ? () => void editing.start(session, card.cell) : null;
    default:
      return null;
  }
}

function goTo(session: Session, cell: CellRef | undefined): (() => void) | null {
  if (cell === undefined) return null;
  return () => void session.cards.explain({ step: cell.step, index: cell.index });
}

/** Of a sum, the first factor of the largest term; otherwise the largest operand. */
export function largestPrecedent(card: CardInfo): CellRef | undefined {
  const largest = <T>(items: readonly T[], size: (item: T) => number): T | undefined =>
    items.reduce<T | undefined>(
      (best, item) => (best === undefined || size(item) > size(best) ? item : best),
      undefined,
    );
  const term = largest(card.sum?.shown ?? [], ({ value }) => Math.abs(toNumber(value)));
  return term?.cells[0] ?? largest(card.operands, ({ value }) => Math.abs(toNumber(value)));
}
