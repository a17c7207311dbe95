/**
 * Where the reader looks at the picture from: which point is in the middle, and how large a unit is.
 *
 * Pure: a camera is a value, and moving makes another one.
 */

export interface Camera {
  /** The point of the picture in the middle of the screen. */
  x: number;
  y: number;
  /** Pixels of the screen per unit of the picture. */
  zoom: number;
}

export interface Size {
  width: number;
  height: number;
}

export interface Rect extends Size {
  x: number;
  y: number;
}

export const MOST_ZOOM = 12;
/** Around what is shown: names stand above the towers, below them words that lie aslant. */
export const MARGIN = { side: 24, top: 44, bottom: 56 };

/** The camera that shows a part of the picture as large as it fits, at most at some zoom. */
export function fit(rect: Rect, screen: Size, most = 2.5, margin = MARGIN): Camera {
  const zoom = Math.min(
    most,
    Math.max(1, screen.width - 2 * margin.side) / Math.max(1, rect.width),
    Math.max(1, screen.height - margin.top - margin.bottom) / Math.max(1, rect.height),
  );
  const lower = (margin.bottom - margin.top) / 2 / zoom;
  return { x: rect.x + rect.width / 2, y: rect.y + rect.height / 2 + lower, zoom };
}

export function toScreen(camera: Camera, screen: Size, x: number, y: number): [number, number] {
  return [
    (x - camera.x) * camera.zoom + screen.width / 2,
    (y - camera.y) * camera.zoom + screen.height / 2,
  ];
}

export function toPicture(camera: Camera, screen: Size, x: number, y: number): [number, number] {
  return [
    (x - screen.width / 2) / camera.zoom + camera.x,
    (y - screen.height / 2) / camera.zoom + camera.y,
  ];
}

/** Zoom by a factor; the point of the picture under (x, y) of the screen stays there. */
export function zoomAt(
  camera: Camera,
  screen: Size,
  factor: number,
  x: number,
  y: number,
  least: number,
): Camera {
  const zoom = Math.min(MOST_ZOOM, Math.max(least, camera.zoom * factor));
  const [atX, atY] = toPicture(camera, screen, x, y);
  return {
    x: atX - (x - screen.width / 2) / zoom,
    y: atY - (y - screen.height / 2) / zoom,
    zoom,
  };
}

/** Move by pixels of the screen. */
export function panBy(camera: Camera, dx: number, dy: number): Camera {
  return { ...camera, x: camera.x - dx / camera.zoom, y: camera.y - dy / camera.zoom };
}

/** Whether two cameras see the same, but for less than can be seen. */
export function isSame(one: Camera, other: Camera): boolean {
  const [across, down] = [(one.x - other.x) * one.zoom, (one.y - other.y) * one.zoom];
  return Math.hypot(across, down) < 2 && Math.abs(one.zoom / other.zoom - 1) < 0.01;
}

/** The middle of the screen stays within the picture. */
export function within(camera: Camera, picture: Size): Camera {
  return {
    ...camera,
    x: Math.min(picture.width, Math.max(0, camera.x)),
    y: Math.min(picture.height, Math.max(0, camera.y)),
  };
}

/**
 * On the way from one camera to another; `share` runs from 0 to 1. The zoom changes by equal
 * factors, and the middle moves so that what both see grows or shrinks in place.
 */
export function between(from: Camera, to: Camera, share: number): Camera {
  const zoom = from.zoom * (to.zoom / from.zoom) ** share;
  const isLevel = Math.abs(to.zoom / from.zoom - 1) < 1e-3;
  const moved = isLevel ? share : (1 / zoom - 1 / from.zoom) / (1 / to.zoom - 1 / from.zoom);
  return { x: from.x + (to.x - from.x) * moved, y: from.y + (to.y - from.y) * moved, zoom };
}

/** Slow at both ends. */
export function eased(share: number): number {
  return share < 0.5 ? 4 * share ** 3 : 1 - (2 - 2 * share) ** 3 / 2;
}
