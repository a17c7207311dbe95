/**
 * Edits as they stand in a link: `step[index]=value`, several joined by `;`.
 *
 *     scores[0,1,2,3]=0.5             one number
 *     context[*,3,*,*]=0              a region: `*` is the whole axis
 *     encoder.blocks.1[]=0            a module: what it adds to the residual stream
 *     activated[0,2,*]=mean           the mean over the positions of this run
 *     activated[0,2,*]=data           … over those of the model's example texts
 *     resid_pre[*,2,*]=other          what the run over the link's other text has there
 *     resid_pre[*,2,*]=other:A%20dog  … the run over this text
 */

import type { EditInput, EditOutput } from './schema';

/** An edit with nothing but what makes it again, always in the same order. */
export function plainEdit(edit: EditInput | EditOutput): EditInput {
  const { step, index, to = 'value', value = 0, text } = edit;
  if (to === 'value') return { step, index, value };
  return to === 'other' ? { step, index, to, text: text ?? null } : { step, index, to };
}

export function formatEdits(edits: EditInput[], other: string | null): string {
  return edits.map((edit) => `${edit.step}[${indexText(edit)}]=${newText(edit, other)}`).join(';');
}

function indexText({ index }: EditInput): string {
  return index.map((at) => at ?? '*').join(',');
}

function newText({ to = 'value', value = 0, text }: EditInput, other: string | null): string {
  if (to === 'value') return String(value);
  if (to !== 'other' || text === other || !text) return to;
  return `other:${encodeURIComponent(text)}`;
}

/** What makes no sense is left out. */
export function parseEdits(written: string, other: string | null): EditInput[] {
  return written.split(';').flatMap((one) => {
    const found = /^(.+)\[([\d,*]*)\]=(.+)$/.exec(one);
    if (found === null) return [];
    const [, step = '', places = '', put = ''] = found;
    const index = places === '' ? [] : places.split(',').map(placeOf);
    const what = parsePut(put, other);
    return what === null || index.includes(NaN) ? [] : [plainEdit({ step, index, ...what })];
  });
}

function placeOf(text: string): number | null {
  if (text === '*') return null;
  return text === '' || text.includes('*') ? NaN : Number(text);
}

function parsePut(put: string, other: string | null): Omit<EditInput, 'step' | 'index'> | null {
  if (put === 'mean' || put === 'data') return { to: put };
  if (put === 'other') return other === null ? null : { to: 'other', text: other };
  if (put.startsWith('other:')) {
    try {
      return { to: 'other', text: decodeURIComponent(put.slice('other:'.length)) };
    } catch {
      return null;
    }
  }
  const value = Number(put);
  if (Number.isFinite(value)) return { value };
  return put === 'NaN' || put === 'Infinity' || put === '-Infinity' ? { value: put } : null;
}
