/** A playlist on paper, or as PDF: each view as it is in the lecture on a page of its own. */

import { mount, unmount } from 'svelte';

import { lecture } from '../lib/lecture.svelte';
import type { Session } from '../lib/session.svelte';
import { setting } from '../lib/setting.svelte';
import { svgOf } from '../picture/svg_of';
import { EDGE } from './beside';
import { noteOf } from './playlist';
import { playlist } from './playlist.svelte';
import PrintedPages, { type PrintedPage } from './PrintedPages.svelte';
import { settled } from './settled';

/** Tenths of a card's usual size. */
const SMALLEST = 6;

/**
 * Show one view after another, take their pictures, and have the browser print them. Leaving the
 * lecture meanwhile (Escape) gives it up.
 */
export async function printPlaylist(session: Session): Promise<void> {
  const pages: PrintedPage[] = [];
  try {
    if (!(await drawInto(pages, session))) return;
    await settled(session);
    await printed(pages);
  } finally {
    for (const { address } of pages) URL.revokeObjectURL(address);
  }
}

/** The pictures of all views; false where the lecture was left before the last. */
async function drawInto(pages: PrintedPage[], session: Session): Promise<boolean> {
  const before = { hash: location.hash, isOn: lecture.isOn, at: playlist.at };
  lecture.isOn = true;
  try {
    for (const at of playlist.views.keys()) {
      playlist.show(at, true);
      await settled(session);
      if (!lecture.isOn) return false;
      pages.push(await pageOf(at));
    }
    return true;
  } finally {
    lecture.isOn = before.isOn;
    playlist.at = before.at;
    location.replace(before.hash);
  }
}

async function pageOf(at: number): Promise<PrintedPage> {
  const stage = document.querySelector<HTMLElement>('.stage.lecture');
  if (stage === null) throw new Error('there is no view');
  const [frame, card] = ['aside', 'aside .body'].map((one) =>
    stage.querySelector<HTMLElement>(one),
  );
  const styles = [frame, card].map((one) => one?.style.cssText ?? '');
  if (frame && card) unroll(card, frame);
  const { svg } = await svgOf(stage, 0);
  for (const [at, one] of [frame, card].entries()) if (one) one.style.cssText = styles[at]!;
  const view = playlist.views[at]!;
  return {
    address: URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' })),
    title: view.title,
    note: noteOf(view, setting.language),
  };
}

/** Show all of a card: somewhat smaller, then over what is above it. Paper does not scroll. */
function unroll(card: HTMLElement, frame: HTMLElement): void {
  const missing = () => card.scrollHeight - card.clientHeight;
  for (let tenths = 10; tenths >= SMALLEST && missing() > 0; tenths--) {
    card.style.zoom = String(tenths / 10);
  }
  const top = Math.max(EDGE, frame.offsetTop - (missing() * SMALLEST) / 10 - EDGE);
  if (missing() <= 0) return;
  frame.style.top = `${top}px`;
  frame.style.maxHeight = `calc(100% - ${top + EDGE}px)`;
}

async function printed(pages: PrintedPage[]): Promise<void> {
  const shown = mount(PrintedPages, { target: document.body, props: { pages } });
  try {
    const images = [...document.querySelectorAll<HTMLImageElement>('.printed-pages img')];
    await Promise.all(images.map((image) => image.decode()));
    const done = new Promise((end) => addEventListener('afterprint', end, { once: true }));
    print();
    await done;
  } finally {
    await unmount(shown); // else every later print would be of these pages
  }
}
