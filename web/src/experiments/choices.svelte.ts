/** What a reader has chosen for experiments; it stays from number to number. */

import type { WordsRequest } from '../lib/api';

export type Method = NonNullable<WordsRequest['method']>;

export const METHODS: readonly Method[] = ['leave one out', 'gradient', 'integrated', 'rollout'];

class Choices {
  method = $state<Method>('leave one out');
  /** Whether cards are shown in words of the input. */
  cardInWords = $state(false);
  /** The run whose answer is. */
  answerInWords = $state<string | null>(null);
}

export const choices = new Choices();
