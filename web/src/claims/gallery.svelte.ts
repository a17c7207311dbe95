/** The claims and what was measured for them, kept while the page is open. */

import { SvelteMap } from 'svelte/reactivity';

import type { ClaimInfo, ClaimList, ClaimSummary, Language } from '../lib/api';
import { describe, source } from '../lib/source';
import { fitting, NO_FILTER, type Filter, type Verdict } from './filter';

class Gallery {
  list = $state.raw<ClaimList | null>(null);
  filter = $state<Filter>({ ...NO_FILTER });
  problem = $state<string | null>(null);
  /** The claim that is being measured for the gallery. */
  running = $state<string | null>(null);

  private listed: Language | null = null;
  private readonly found = new SvelteMap<string, ClaimInfo>();

  async load(language: Language): Promise<void> {
    if (this.listed === language) return;
    this.listed = language;
    this.problem = null;
    try {
      const list = await source.claims(language);
      if (this.listed === language) this.list = list; // not the other language's, come late
    } catch (error) {
      if (this.listed !== language) return;
      this.listed = null;
      this.problem = describe(error);
    }
  }

  /** What was measured for a claim, or undefined before. */
  of(id: string, language: Language, settings: readonly string[] = []): ClaimInfo | undefined {
    return this.found.get(keyOf(id, language, settings));
  }

  verdictOf(claim: ClaimSummary): Verdict | null {
    const other: Language = this.listed === 'zh' ? 'en' : 'zh';
    const found = this.of(claim.id, this.listed ?? 'en') ?? this.of(claim.id, other);
    return found?.verdict ?? claim.verdict;
  }

  async measure(
    id: string,
    language: Language,
    settings: readonly string[],
    signal: AbortSignal,
  ): Promise<ClaimInfo> {
    const known = this.of(id, language, settings);
    if (known !== undefined) return known;
    const made = await source.claim(id, language, settings, signal);
    this.found.set(keyOf(id, language, settings), made);
    return made;
  }

  /** Measure one claim after another, what the filter shows before the rest; `ids`: only these. */
  async measureAll(
    list: ClaimList,
    ids: readonly string[] | null,
    language: Language,
    signal: AbortSignal,
  ): Promise<void> {
    const wanted = list.claims.filter(({ id }) => ids === null || ids.includes(id));
    const failed = new Set<string>();
    const isLeft = ({ id, is_slow }: ClaimSummary) =>
      (list.can_measure || is_slow) && !failed.has(id) && this.of(id, language) === undefined;
    while (!signal.aborted) {
      const shown = fitting(list, { ...this.filter, verdict: null }, (one) => this.verdictOf(one));
      const next = shown.find((one) => wanted.includes(one) && isLeft(one)) ?? wanted.find(isLeft);
      this.running = next?.id ?? null;
      if (next === undefined) return;
      try {
        await this.measure(next.id, language, [], signal);
        this.problem = null;
      } catch (error) {
        if (signal.aborted) return;
        failed.add(next.id);
        this.problem = describe(error);
      }
    }
  }
}

function keyOf(id: string, language: Language, settings: readonly string[]): string {
  return [language, id, ...settings].join('/');
}

export const gallery = new Gallery();
