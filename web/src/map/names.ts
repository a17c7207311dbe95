/** What the boxes of the picture are called, in the page's language. */

import type { TraceInfo } from '../lib/api';
import type { Key } from '../lib/i18n';
import { t } from '../lib/i18n';
import type { Box, Scene } from './scene';

export function nameOf(box: Box, scene: Scene, isBrief = false): string {
  switch (box.kind) {
    case 'tower': {
      const name = t(`map.${box.name}` as Key);
      if (scene.roots.filter((one) => one.name === box.name).length === 1) return name;
      const layers = box.inside.flatMap(({ kind, layer }) =>
        kind === 'block' ? [layer ?? 0] : [],
      );
      const [first, last] = [Math.min(...layers) + 1, Math.max(...layers) + 1];
      return t(isBrief ? 'map.pieceBrief' : 'map.piece', { name, first, last });
    }
    case 'block':
      return t('map.block', { n: (box.layer ?? 0) + 1 });
    case 'step':
    case 'group':
      return box.name;
    case 'head':
      return t(box.tower === scene.columns.length - 1 ? 'map.head' : 'map.finalNorm');
    default:
      return t(`map.${box.kind}`);
  }
}

/** The same where there is little room: of a step's dotted name the end, `cell` or `pool.2`. */
export function shortNameOf(box: Box, scene: Scene): string {
  const name = nameOf(box, scene);
  if (box.kind !== 'step') return name;
  const parts = name.split('.');
  const isNumbered = /^\d+$/.test(parts.at(-1)!);
  return parts.slice(isNumbered ? -2 : -1).join('.');
}

/** What happens in a row of the picture, in one sentence. */
export function sentenceOf(box: Box): string {
  return t(`map.say.${box.kind}` as Key);
}

/** A step's symbol without LaTeX where that is short: `Q`, `Kᵀ`. */
export function plainSymbol(trace: TraceInfo, step: number): string | null {
  const symbol = trace.steps[step]?.symbol ?? null;
  if (symbol === null) return null;
  const plain = symbol.replace('^\\top', 'ᵀ');
  return /^[A-Za-zΑ-ω]ᵀ?$/.test(plain) ? plain : null;
}

/** What a screen reader is told about the whole picture. */
export function summaryOf(scene: Scene): string {
  const towers = scene.roots.filter(({ kind }) => kind === 'tower');
  if (towers.length === 0) return t('map.graph', { n: scene.roots.length });
  const names = [...new Set(towers.map(({ name }) => name))].map((name) => {
    const pieces = towers.filter((tower) => tower.name === name);
    const blocks = pieces.flatMap(({ inside }) => inside.filter(({ kind }) => kind === 'block'));
    return `${t(`map.${name}` as Key)} × ${blocks.length}`;
  });
  return t('map.towers', { names: names.join(', ') });
}
