/** What a head does, in two sentences. */

import { t } from '../lib/i18n';
import { formatNumber, formatShare } from '../matrix/numbers';
import type { Summary } from './weights';

export function tell({ habit, share, spread }: Summary): string {
  const looks =
    habit === null
      ? t('attention.noHabit')
      : t('attention.looksAt', { what: t(`attention.${habit}`), share: formatShare(share) });
  return (
    looks + t('attention.between') + t('attention.spread', { spread: formatNumber(spread, 3) })
  );
}
