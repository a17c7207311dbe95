/** The page's one store of tiles, filled by the server. */

import type { Window } from '../lib/api';
import { source } from '../lib/source';
import { TileStore, transpose, type FetchTile } from './tiles';

const fetchTile: FetchTile = async (place, rows, columns) => {
  const { transposed } = place;
  const window: Window = {
    rows: [...(transposed ? columns : rows)],
    columns: [...(transposed ? rows : columns)],
  };
  const panel = { step: place.step, lead: [...place.lead], operand: place.operand };
  const answer = await source.values(place.trace, panel, window);
  return transposed ? transpose(answer.data, answer.rows, answer.columns) : answer.data;
};

export const store = new TileStore(fetchTile);
