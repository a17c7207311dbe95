/** Keys that belong to a whole view: whether a key press is free for it. */

import { lecture } from './lecture.svelte';

/** Whether a key was pressed outside of boxes that take text, without Ctrl, Alt or Meta. */
export function isFree(event: KeyboardEvent): boolean {
  return !(event.ctrlKey || event.altKey || event.metaKey) && !isTaken(event);
}

/** Ctrl+Z (⌘Z) outside of boxes that have an undo of their own. */
export function isUndo(event: KeyboardEvent): boolean {
  const isKey = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  return isKey && event.key.toLowerCase() === 'z' && !isTaken(event);
}

/** Whether a key belongs to what has the focus: a box for text, a dialog, or someone took it. */
function isTaken(event: KeyboardEvent): boolean {
  if (event.defaultPrevented) return true;
  const target = event.target;
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.closest('dialog[open]') !== null) return true;
  if (target instanceof HTMLInputElement) {
    return target.type !== 'range' && target.type !== 'checkbox';
  }
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

/** The key for a context menu, or Shift+F10 where a keyboard has none. */
export function isMenuKey(event: KeyboardEvent): boolean {
  return event.key === 'ContextMenu' || (event.shiftKey && event.key === 'F10');
}

/**
 * J on, K back, as everywhere on the page: 1, −1, or 0 for another key. In a lecture also the keys
 * that clickers send.
 */
export function stepOf(event: KeyboardEvent): -1 | 0 | 1 {
  if (!isFree(event)) return 0;
  const key = event.key.toLowerCase();
  if (key === 'j') return 1;
  if (key === 'k') return -1;
  return lecture.isOn ? clicked(event) : 0;
}

const ONWARD = ['PageDown', 'ArrowRight'];
const BACK = ['PageUp', 'ArrowLeft'];
/** What has arrow keys of its own. */
const OWN_ARROWS = '[role=grid], [role=application], [role=menu], [type=range], [type=radio]';

/** Which way a clicker or an arrow key goes: 1, −1, or 0 where it is another or someone else's. */
export function clicked(event: KeyboardEvent): -1 | 0 | 1 {
  const by = ONWARD.includes(event.key) ? 1 : BACK.includes(event.key) ? -1 : 0;
  const isArrow = event.key.startsWith('Arrow');
  const isOwn = isArrow && event.target instanceof Element && event.target.closest(OWN_ARROWS);
  return isOwn ? 0 : by;
}
