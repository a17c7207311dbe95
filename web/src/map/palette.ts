/** The colours of the picture, read from the page's style once for each theme. */

import type { BoxKind } from './scene';

const NAMES = [
  'background',
  'panel',
  'raised',
  'line',
  'line-strong',
  'text',
  'soft',
  'accent',
  'map-embedding',
  'map-norm',
  'map-attention',
  'map-cross',
  'map-feed',
  'map-mixer',
  'map-head',
  'map-stream',
] as const;

type Name = (typeof NAMES)[number];

export type Palette = Record<Name, string> & { sans: string; mono: string; dark: boolean };

export function readPalette(): Palette {
  const root = document.documentElement;
  const style = getComputedStyle(root);
  const colours = Object.fromEntries(
    NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  ) as Record<Name, string>;
  return {
    ...colours,
    sans: style.getPropertyValue('--sans'),
    mono: style.getPropertyValue('--mono'),
    dark: root.dataset['theme'] === 'dark',
  };
}

const TINTS: Partial<Record<BoxKind, Name>> = {
  embedding: 'map-embedding',
  tokens: 'map-embedding',
  norm: 'map-norm',
  attention: 'map-attention',
  parallel: 'map-attention',
  cross: 'map-cross',
  feed_forward: 'map-feed',
  experts: 'map-feed',
  mixer: 'map-mixer',
  head: 'map-head',
  answer: 'map-head',
  group: 'map-mixer',
  step: 'map-norm',
};

export function tintOf(palette: Palette, kind: BoxKind): string {
  return palette[TINTS[kind] ?? 'map-stream'];
}
