/** The page's one store of tiles, filled by the server. */

import type { Window } from '../lib/api';
import { source } from '../lib/source';
import { difference, TileStore, transpose, type FetchTile } from './tiles';

const fetchTile: FetchTile = async (place, rows, columns) => {
  const { transposed } = place;
  const window: Window = {
    rows: [...(transposed ? columns : rows)],
    columns: [...(transposed ? rows : columns)],
  };
  const ask = ({ trace, step }: { trace: string; step: number }) =>
    source.values(trace, { step, lead: [...place.lead], operand: place.operand }, window);
  const [answer, less] = await Promise.all([ask(place), place.minus && ask(place.minus)]);
  const values = less === undefined ? answer.data : difference(answer.data, less.data);
  const { rows: high, columns: wide, unwritten } = answer;
  if (!transposed) return { values, unwritten };
  return {
    values: transpose(values, high, wide),
    unwritten: unwritten && transpose(unwritten, high, wide),
  };
};

export const store = new TileStore(fetchTile);
