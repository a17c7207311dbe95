/** Which claims of the gallery are shown. */

import type { ClaimInfo, ClaimList, ClaimSummary, RowInfo } from '../lib/api';

export type Verdict = ClaimInfo['verdict'];

export interface Filter {
  /** Words that must all occur; an id of a claim or a row is a word too. */
  words: string;
  /** The id of a text, or all of them. */
  text: string;
  verdict: Verdict | null;
  /** Only claims whose experiment has switches. */
  switchable: boolean;
}

export const NO_FILTER: Filter = { words: '', text: '', verdict: null, switchable: false };

/** The verdict of a claim where it is known: what was measured here comes first. */
export type KnownVerdict = (claim: ClaimSummary) => Verdict | null;

/** The claims that fit, in their order; `verdict` of the filter can be left out to count them. */
export function fitting(list: ClaimList, filter: Filter, known: KnownVerdict): ClaimSummary[] {
  const words = filter.words.toLowerCase().split(/\s+/).filter(Boolean);
  const names = new Map(list.rows.map((row) => [row.id, row.name]));
  return list.claims.filter((claim) => {
    if (filter.text !== '' && !claim.texts.includes(filter.text)) return false;
    if (filter.switchable && claim.n_switches === 0) return false;
    if (filter.verdict !== null && known(claim) !== filter.verdict) return false;
    const said = [claim.id, claim.says, claim.group, ...claim.rows]
      .concat(claim.rows.map((row) => names.get(row) ?? ''))
      .join(' ')
      .toLowerCase();
    return words.every((word) => said.includes(word));
  });
}

/** How many claims have each verdict. */
export function counted(claims: ClaimSummary[], known: KnownVerdict): Map<Verdict | null, number> {
  const counts = new Map<Verdict | null, number>();
  for (const claim of claims) {
    const verdict = known(claim);
    counts.set(verdict, (counts.get(verdict) ?? 0) + 1);
  }
  return counts;
}

/** Claims under their headings, in order. */
export function grouped(claims: ClaimSummary[]): { title: string; claims: ClaimSummary[] }[] {
  const groups: { title: string; claims: ClaimSummary[] }[] = [];
  for (const claim of claims) {
    if (groups.at(-1)?.title !== claim.group) groups.push({ title: claim.group, claims: [] });
    groups.at(-1)!.claims.push(claim);
  }
  return groups;
}

/** The claim or the row of an id, upper or lower case. */
export function named(
  list: ClaimList,
  name: string,
): { claim: ClaimSummary | null; row: RowInfo | null } {
  const id = name.toUpperCase();
  return {
    claim: list.claims.find((claim) => claim.id === id) ?? null,
    row: list.rows.find((row) => row.id === id) ?? null,
  };
}

/** A sentence without the marks of code in it. */
export function plain(text: string): string {
  return text.replaceAll('`', '');
}

/** How a verdict looks: its class in the styles of the gallery. */
export const LOOKS: Record<Verdict, string> = {
  holds: 'good',
  'holds in part': 'partly',
  fails: 'bad',
  'not decidable here': 'open',
  'not measured yet': 'open',
};
