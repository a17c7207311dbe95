/** The columns of a picture that is higher than the screen, drawn as wide as the screen has room. */

import type { MapInfo } from '../lib/api';
import { MARGIN, type Size } from './camera';

/** Beside the towers, for the names of their blocks. */
const NAMES = 56;
/** A tower alone on the screen is drawn so large at least, for its steps to be read; but so much
 * wider is no loss, since name and steps of a part have the screen for themselves when it is near. */
const [LEAST_ZOOM, LEAST_ADDED] = [0.72, 0.5];

/** The same picture with its columns further apart: towers and pieces of them keep their left half. */
export function widened(info: MapInfo, screen: Size): MapInfo {
  const spans = info.columns.map(({ x, pitch, texts }): [number, number] => [
    x - pitch / 2,
    pitch * texts.length,
  ]);
  const towers = info.boxes.filter(({ kind }) => kind === 'tower');
  const zoom = (screen.height - MARGIN.top - MARGIN.bottom) / info.height;
  const room = (screen.width - 2 * (MARGIN.side + NAMES)) / zoom - info.width;
  const readable = screen.width / LEAST_ZOOM - Math.max(...towers.map(({ width }) => width));
  const widest = Math.max(...spans.map(([, width]) => width));
  const added = Math.min(
    room / spans.reduce((sum, [, width]) => sum + width, 0),
    Math.max(LEAST_ADDED, readable / widest),
  );
  if (spans.length === 0 || zoom <= 0 || !(added > 0)) return info;

  const moved = (x: number) =>
    spans.reduce((to, [left, width]) => to + added * Math.min(width, Math.max(0, x - left)), x);
  return {
    ...info,
    width: moved(info.width),
    boxes: info.boxes.map((box) => {
      const x = moved(box.x);
      return { ...box, x, width: moved(box.x + box.width) - x };
    }),
    arrows: info.arrows.map((arrow) => ({
      ...arrow,
      points: arrow.points.map(([x, y]) => [moved(x!), y!]),
    })),
    columns: info.columns.map((one) => ({
      ...one,
      x: moved(one.x),
      pitch: one.pitch * (1 + added),
    })),
  };
}
