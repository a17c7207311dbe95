/** The settings of a search. */

export type Search = 'greedy' | 'beam' | 'sampling';

export interface Settings {
  search: Search;
  beam: number;
  length_penalty: number;
  temperature: number;
  top_k: number | null;
  top_p: number | null;
  seed: number;
  max_new: number;
}

/** What a search begins with. */
export const INITIAL: Settings = {
  search: 'beam',
  beam: 4,
  length_penalty: 0.6,
  temperature: 0.8,
  top_k: null,
  top_p: null,
  seed: 0,
  max_new: 48,
};
