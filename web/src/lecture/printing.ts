/** A playlist on paper, or as PDF: each view as it is in the lecture on a page of its own. */

import { mount, unmount } from 'svelte';

import { lecture } from '../lib/lecture.svelte';
import type { Session } from '../lib/session.svelte';
import { setting } from '../lib/setting.svelte';
import { svgOf } from '../picture/svg_of';
import { noteOf } from './playlist';
import { playlist } from './playlist.svelte';
import PrintedPages, { type PrintedPage } from './PrintedPages.svelte';
import { settled } from './settled';

/** Show one view after another, take their pictures, and have the browser print them. */
export async function printPlaylist(
  session: Session,
  signal: AbortSignal,
  ontold: (n: number) => void,
): Promise<void> {
  const before = { hash: location.hash, isOn: lecture.isOn, at: playlist.at };
  const pages: PrintedPage[] = [];
  lecture.isOn = true;
  try {
    for (const at of playlist.views.keys()) {
      if (signal.aborted) return;
      ontold(at + 1);
      playlist.show(at, true);
      await settled(session, signal);
      pages.push(await pageOf(at));
    }
  } finally {
    lecture.isOn = before.isOn;
    playlist.at = before.at;
    location.replace(before.hash);
  }
  await settled(session, signal);
  if (!signal.aborted) await printed(pages);
}

async function pageOf(at: number): Promise<PrintedPage> {
  const stage = document.querySelector<HTMLElement>('.stage.lecture');
  if (stage === null) throw new Error('there is no view');
  const { svg } = await svgOf(stage, 0);
  const view = playlist.views[at]!;
  return {
    address: URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' })),
    title: view.title,
    note: noteOf(view, setting.language),
  };
}

async function printed(pages: PrintedPage[]): Promise<void> {
  const shown = mount(PrintedPages, { target: document.body, props: { pages } });
  const images = [...document.querySelectorAll<HTMLImageElement>('.printed-pages img')];
  await Promise.all(images.map((image) => image.decode()));
  const done = new Promise((end) => addEventListener('afterprint', end, { once: true }));
  print();
  await done;
  await unmount(shown);
  for (const { address } of pages) URL.revokeObjectURL(address);
}
