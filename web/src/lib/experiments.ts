/** What can be asked about an open run beyond what was recorded, and what comes back. */

import type * as api from './schema';

/** The requests without what the source adds itself: the page's language. */
export interface Experiments {
  /** What the model would answer after some edits. */
  answer: { request: api.EditRequest; answer: api.Answer };
  /** A number shared out among the tokens of the input. */
  words: { request: Omit<api.WordsRequest, 'language'>; answer: api.WordsAnswer };
  /** The run beside one over another text. */
  compare: { request: Omit<api.CompareRequest, 'language'>; answer: api.ComparisonInfo };
  /** One layer of a sweep. */
  sweep: { request: Omit<api.SweepRequest, 'language'>; answer: api.SweepRow };
  /** What each layer would answer. */
  lens: { request: Record<string, never>; answer: api.LensAnswer };
  /** What each part adds to a number. */
  contributions: {
    request: Omit<api.ContributionsRequest, 'language'>;
    answer: api.ContributionsAnswer;
  };
}

export type Experiment = keyof Experiments;
