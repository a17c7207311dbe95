/** The page's one store of tiles, filled by the server. */

import * as api from '../lib/api';
import { TileStore, transpose, type FetchTile } from './tiles';

const fetchTile: FetchTile = async (place, rows, columns) => {
  const { transposed } = place;
  const window: api.Window = {
    rows: [...(transposed ? columns : rows)],
    columns: [...(transposed ? rows : columns)],
  };
  const panel = { step: place.step, lead: [...place.lead], operand: place.operand };
  const answer = await api.values(place.trace, panel, window);
  return transposed ? transpose(answer.data, answer.rows, answer.columns) : answer.data;
};

export const store = new TileStore(fetchTile);
