/** What a step is called in a list, in the page's language. */

import type { StepInfo } from './api';
import { setting } from './setting.svelte';

/** Its role; of a plain operation its name in the code, in Chinese with what it does. */
export function stepTitle({ title, operation, short }: StepInfo): string {
  if (title) return title[setting.language];
  return setting.language === 'zh' && operation ? `${short} ${operation.zh}` : short;
}
