/** What a head does, in two sentences. */

import { t } from '../lib/i18n';
import { formatShare } from '../matrix/numbers';
import type { Summary } from './weights';

export function tell({ habit, share, spread }: Summary): string {
  const looks =
    habit === null
      ? t('attention.noHabit')
      : t('attention.looksAt', { what: t(`attention.${habit}`), share: formatShare(share) });
  const count = Math.round(spread);
  const spreads =
    count <= 1 ? t('attention.spreadOne') : t('attention.spread', { spread: String(count) });
  return looks + t('attention.between') + spreads;
}
