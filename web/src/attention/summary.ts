/** What a head does, in two sentences. */

import { t } from '../lib/i18n';
import { formatShare } from '../matrix/numbers';
import { linksFrom, type Summary, type Weights } from './weights';

export function tell(
  { habit, share, favourite, spread }: Summary,
  weights: Weights,
  queries: string[],
  keys: string[],
): string {
  const looks =
    habit !== null
      ? t('attention.looksAt', { what: t(`attention.${habit}`), share: formatShare(share) })
      : favourite !== null
        ? t('attention.looksAt', {
            what: t('attention.token', { token: keys[favourite.key] ?? String(favourite.key) }),
            share: formatShare(favourite.share),
          })
        : t('attention.noHabit');
  const count = Math.round(spread);
  const spreads =
    count > 1 ? t('attention.spread', { spread: String(count) }) : tellOne(weights, queries, keys);
  return looks + t('attention.between') + spreads;
}

/** Of tokens that attend to one each, the clearest; one that attends to another says more. */
function tellOne(weights: Weights, queries: string[], keys: string[]): string {
  const links = linksFrom(weights, 0, Infinity);
  const other = links.filter(({ query, key }) => queries[query] !== keys[key]);
  const clearest = other.at(-1) ?? links.at(-1);
  if (clearest === undefined) return t('attention.nothing');
  const { query, key, weight } = clearest;
  const [from, to] = [queries[query] ?? String(query), keys[key] ?? String(key)];
  return t('attention.spreadOne', { query: from, key: to, share: formatShare(weight) });
}
