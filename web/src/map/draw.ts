/**
 * The picture, drawn in one go for each frame: only what is in view, and only what can be read.
 *
 * A box whose contents are too small to be read has its name in their place; from a readable size
 * on the contents appear. That is all there is to the levels of the zoom.
 */

import type { Brush } from './brush';
import type { Rect } from './camera';
import {
  drawAnswers,
  drawArcs,
  drawFront,
  drawGlyphs,
  drawHeat,
  drawLines,
  drawTokens,
  drawTokensBelow,
  slantFrom,
  type Pointed,
} from './columns';
import { tintOf } from './palette';
import { visibility, type Attention, type Box, type Heat, type Scene } from './scene';
import { widthOf } from './type';

export interface Look {
  scene: Scene;
  pointed: Pointed | null;
  /** The step that is selected elsewhere on the page. */
  selected: number | null;
  /** The row that the tokens are in, all rows, and how far through it they are. */
  play: { row: Box; rows: readonly Box[]; share: number } | null;
  nameOf: (box: Box) => string;
  /** What a tower is called that is too narrow for its name. */
  briefOf: (tower: Box) => string;
  /** What a step is called in formulas, if it has a short symbol. */
  symbolOf: (step: number) => string | null;
  /** The small picture of a step's numbers. */
  pictureOf: (step: number) => CanvasImageSource | null;
  answers: string[];
  /** How much of the lower edge is covered. */
  floor?: number;
  /** The answer as one text, for what is not written token by token. */
  answer: string;
}

const UNSEEN = 0.35;
/** The smallest name of a part; on a projector in pixels of the screen. */
const [LEAST_PART, LEAST_IN_A_HALL] = [7, 13];
/** From the left edge of a part to its name. */
const NAME_AT = 14;
/** Names that would be beyond the left edge of the screen stand this far from it. */
const EDGE = 10;
/** Smaller letters under a picture would only be dots. */
const LEAST_NAME = 6.5;
/** The widths that `map_layout.py` gives to the name of a part and to its steps. */
const NAME = 136;
const INSIDE = 420;
/** Beside a tower, for the name of a block, or for its number alone. */
const [ROOM_FOR_NAME, ROOM_FOR_NUMBER] = [64, 18];
/** What it leaves between two towers. */
const APART = 150;
const PARTS = new Set(['embedding', 'norm', 'attention', 'cross', 'feed_forward']);
for (const kind of ['experts', 'parallel', 'mixer', 'head', 'group']) PARTS.add(kind);

export function draw(brush: Brush, look: Look): void {
  const { canvas, screen } = brush;
  canvas.clearRect(0, 0, screen.width, screen.height);
  canvas.globalAlpha = 1;
  const { scene } = look;
  const seen = seenOf(look);
  for (const root of scene.roots) if (root.kind === 'tower') drawTower(brush, look, root);
  drawLines(brush, scene);
  const heat = new Map<Box, Heat>(scene.heat.map((one) => [one.box, one]));
  const attention = new Map<Box, Attention>(scene.attention.map((one) => [one.box, one]));
  for (const box of scene.boxes) {
    if (box.kind === 'tower' || box.kind === 'block') continue;
    if (!brush.sees(brush.rect(box))) continue;
    brush.faded(seen(box), () => {
      if (PARTS.has(box.kind)) drawPart(brush, look, box);
      else if (box.kind === 'step') drawStep(brush, look, box);
      else if (box.kind === 'stream') drawStream(brush, look, box);
      else drawEnd(brush, look, box);
      const strips = heat.get(box);
      if (strips !== undefined) drawHeat(brush, scene, strips, look.pointed);
      const arcs = attention.get(box);
      const share = look.play?.row === box ? look.play.share : null;
      if (arcs !== undefined) drawArcs(brush, scene, arcs, look.pointed, share);
      else drawGlyphs(brush, scene, box);
    });
  }
  drawArrows(brush, look, seen);
  for (const box of scene.boxes) {
    if (PARTS.has(box.kind) && box.tower !== null) drawBesideEdge(brush, look, box);
  }
  for (const root of scene.roots)
    if (root.kind === 'tower') {
      drawTokensBelow(brush, scene, root, look.floor);
    }
  if (look.play !== null) {
    const { row, share } = look.play;
    drawFront(brush, scene, row, share, row.kind === 'answer' && look.answers.length === 0);
  }
}

/** How much of each box is there yet, while the tokens are on their way. */
function seenOf({ play }: Look): (box: Box) => number {
  if (play === null) return () => 1;
  const now = play.rows.indexOf(play.row);
  const order = new Map(play.rows.map((box, at) => [box, at]));
  return (box) => {
    const at = order.get(box) ?? (box.parent === null ? undefined : order.get(box.parent));
    if (at === undefined || at < now) return 1;
    return at > now ? UNSEEN : UNSEEN + (1 - UNSEEN) * play.share;
  };
}

function drawTower(brush: Brush, look: Look, tower: Box): void {
  const { palette } = brush;
  const rect = brush.rect(tower);
  if (!brush.sees(rect)) return;
  brush.slab(rect, palette.panel, 1, 0, 16);
  brush.slab(rect, palette['line-strong'], 0, 0.8, 16);
  const size = Math.max(13, Math.min(22, 20 * brush.zoom));
  const whole = look.nameOf(tower);
  const name = brush.cut(whole, size, rect.width, 700) === whole ? whole : look.briefOf(tower);
  const [left, y] = [rect.x + 4, rect.y - size * 0.8];
  const end = slantFrom(brush, look.scene, tower, look.answers);
  // Where the answer begins earlier than the name would end, the name ends there.
  const isBefore = end !== null && brush.cut(name, size, end - left, 700) !== name;
  const [x, align] = isBefore ? [end, 'right'] : [left, 'left'];
  // Half of a name at the upper edge of the screen says nothing.
  if (y > size / 2) brush.write(name, x, y, size, rect.width, { weight: 700, align });
  for (const block of tower.inside) {
    if (block.kind !== 'block') continue;
    const inner = brush.rect(block);
    if (!brush.sees(inner)) continue;
    const isPointed = look.pointed?.box === block;
    brush.slab(inner, palette.raised, 1, 0, 12);
    brush.slab(inner, isPointed ? palette.accent : palette.line, 0, 1, 12, isPointed ? 2 : 1);
    nameBlock(brush, look, block, inner, rect);
  }
}

/** In the block's upper edge; where that is too low, beside the tower: of the last one on its right,
 * where no arrows come in. */
function nameBlock(brush: Brush, look: Look, block: Box, rect: Rect, tower: Rect): void {
  const { palette, zoom } = brush;
  const colour = palette.soft;
  const name = look.nameOf(block);
  const right = tower.x + tower.width;
  const beyond = brush.screen.width - right;
  const isLast = block.tower !== 0 && block.tower === look.scene.columns.length - 1;
  const onRight = isLast && beyond > ROOM_FOR_NAME;
  const onLeft = Math.min(tower.x, block.tower === 0 ? Infinity : APART * zoom);
  const beside = onRight ? beyond : onLeft;
  if (24 * zoom >= 8) {
    // Above the uppermost part, which is a norm where that comes last; a stream has room beside it.
    const parts = block.inside.filter(({ kind }) => kind !== 'stream');
    const room = Math.min(...parts.map((part) => brush.rect(part).y)) - rect.y;
    const size = Math.max(8, Math.min(14, Math.max(10, 14 * zoom), 0.8 * room));
    const y = rect.y + Math.min(Math.max(size * 0.8, 13 * zoom), room / 2);
    const x = Math.max(EDGE, rect.x + 10 * zoom);
    brush.write(name, x, y, size, rect.width * 0.4, { weight: 600, colour });
  } else if (rect.height >= 14 && beside > ROOM_FOR_NUMBER) {
    const y = rect.y + rect.height / 2;
    const short = beside > ROOM_FOR_NAME ? name : String((block.layer ?? 0) + 1);
    const x = onRight ? right + 8 : tower.x - 8;
    brush.write(short, x, y, 11, 90, { weight: 600, colour, align: onRight ? 'left' : 'right' });
  }
}

/** A part: a slab with its name, small over its steps or large in their place. */
function drawPart(brush: Brush, look: Look, box: Box): void {
  const rect = brush.rect(box);
  const colour = tintOf(brush.palette, box.kind);
  const isPointed = look.pointed?.box === box;
  brush.slab(rect, colour, isPointed ? 0.18 : 0.1, isPointed ? 1 : 0.35, 8, isPointed ? 2 : 1);
  brush.slab({ ...rect, width: Math.max(2, 4 * brush.zoom) }, colour, 0.9, 0, 2);
  const more = box.nMore > 0 ? ` +${box.nMore}` : '';
  const left = rect.x + NAME_AT * brush.zoom;
  const name = look.nameOf(box) + more;
  if (box.tower === null) {
    const isClosed = !box.inside.some((one) => visibility(one, brush.zoom, brush.enlarged) > 0);
    const size = Math.min(14, Math.max(10, 13 * brush.zoom));
    const y = isClosed ? rect.y + rect.height / 2 : rect.y + 13 * brush.zoom;
    brush.write(name, left, y, size, rect.width - 14 * brush.zoom, { weight: 600 });
    return;
  }
  const isShown = box.inside.some((one) => visibility(one, brush.zoom, brush.enlarged) > 0);
  const size = partSize(brush, rect);
  if (size === 0) return;
  const room = (isShown ? NAME : NAME + INSIDE) * brush.zoom;
  if (left < 0) return; // see `drawBesideEdge`
  // Smaller letters rather than fewer.
  const fitting = Math.max(8, room / widthOf(name, 600, brush.palette.sans));
  brush.write(name, left, rect.y + rect.height / 2, Math.min(size, fitting), room, { weight: 600 });
}

/** How large the name of a part is; 0 where it could not be read. */
function partSize({ zoom, enlarged }: Brush, { height }: Rect): number {
  const size = Math.min(16, Math.max(10, 13.5 * zoom), height * 0.8);
  return size < Math.min(LEAST_PART, LEAST_IN_A_HALL / enlarged) ? 0 : size;
}

/** The name of a part whose left end is beyond the edge of the screen, in the corner that is seen. */
function drawBesideEdge(brush: Brush, look: Look, box: Box): void {
  const { palette } = brush;
  const rect = brush.rect(box);
  const size = partSize(brush, rect);
  if (!brush.sees(rect) || rect.x + NAME_AT * brush.zoom >= 0 || size === 0) return;
  const name = look.nameOf(box);
  const width = size * widthOf(name, 600, palette.sans) + 10;
  if (rect.x + rect.width < width + 2 * EDGE) return; // little of the part is seen itself
  const height = Math.min(rect.height, 1.5 * size);
  brush.slab({ x: EDGE - 5, y: rect.y, width, height }, palette.panel, 0.9, 0, 4);
  brush.write(name, EDGE, rect.y + height / 2, size, width, { weight: 600 });
}

/** A step: its numbers as a small picture, and its name. */
function drawStep(brush: Brush, look: Look, box: Box): void {
  const shown = visibility(box, brush.zoom, brush.enlarged);
  if (shown === 0 || box.step === null) return;
  const { palette } = brush;
  const rect = brush.rect(box);
  const isSelected = look.selected === box.step;
  const isPointed = look.pointed?.box === box;
  brush.faded(shown, () => {
    brush.slab(rect, palette.panel, 1, 0, 6);
    const line = isSelected || isPointed ? palette.accent : palette['line-strong'];
    brush.slab(rect, line, 0, 1, 6, isSelected ? 2.5 : isPointed ? 2 : 1);
    const picture = look.pictureOf(box.step!);
    const head = Math.max(rect.height * 0.42, box.parent === null ? 12 : 0);
    if (picture !== null) {
      brush.canvas.imageSmoothingEnabled = false;
      const inset = rect.height * 0.09;
      brush.canvas.drawImage(
        picture,
        ...([rect.x + inset, rect.y + head, rect.width - 2 * inset] as const),
        rect.height - head - inset,
      );
    }
    const symbol = box.parent === null ? null : look.symbolOf(box.step!);
    const relative =
      symbol === null ? 0.27 * rect.height : Math.max(0.32 * rect.height, 0.9 * head);
    const size = Math.min(15, box.parent === null ? Math.max(9.5, relative) : relative);
    const y = picture === null ? rect.y + rect.height / 2 : rect.y + head / 2 + 1;
    if (size < Math.min(LEAST_NAME, LEAST_IN_A_HALL / brush.enlarged)) return;
    brush.write(symbol ?? look.nameOf(box), rect.x + rect.width / 2, y, size, rect.width - 4, {
      align: 'center',
      weight: symbol === null ? 500 : 650,
    });
  });
}

function drawStream(brush: Brush, look: Look, box: Box): void {
  const size = 11 * Math.min(1.5, brush.zoom);
  if (size < 8) return;
  const rect = brush.rect(box);
  brush.write(
    look.nameOf(box),
    rect.x + (NAME + INSIDE + 24) * brush.zoom,
    rect.y + rect.height / 2,
    size,
    400,
    {
      align: 'right',
      colour: look.pointed?.box === box ? brush.palette.accent : brush.palette.soft,
    },
  );
}

/** The lowest and the uppermost row: tokens in, the answer out. */
function drawEnd(brush: Brush, look: Look, box: Box): void {
  const rect = brush.rect(box);
  const size = Math.max(9, Math.min(15, 13 * brush.zoom));
  const right = rect.x + (NAME + INSIDE + 24) * brush.zoom;
  // In a lecture's large type the name would lie over those of the rows beside it.
  if (size <= 1.6 * rect.height) {
    brush.write(look.nameOf(box), right, rect.y + rect.height / 2, size, 440 * brush.zoom, {
      align: 'right',
      colour: brush.palette.soft,
    });
  }
  if (box.kind === 'tokens') drawTokens(brush, look.scene, box);
  else if (look.answers.length > 0) drawAnswers(brush, look.scene, box, look.answers);
  else if (look.answer !== '') {
    const { x, pitch, texts } = look.scene.columns[box.tower!]!;
    const width = Math.max(pitch * texts.length, 120);
    const wide = brush.rect({ x: x - pitch / 2, y: box.y + 6, width, height: box.height - 12 });
    brush.slab(wide, brush.palette['map-head'], 0.16, 0.7, 8);
    const large = Math.max(10, Math.min(18, 17 * brush.zoom));
    brush.write(look.answer, wide.x + wide.width / 2, wide.y + wide.height / 2, large, wide.width, {
      align: 'center',
      weight: 700,
    });
  }
}

function drawArrows(brush: Brush, look: Look, seen: (box: Box) => number): void {
  const { palette, zoom } = brush;
  for (const { kind, source, target, points } of look.scene.arrows) {
    const alpha = Math.min(seen(source), seen(target));
    if (kind === 'memory') {
      const isPointed = look.pointed?.box === target;
      brush.faded(alpha * (isPointed ? 1 : 0.75), () =>
        brush.way(
          points,
          palette['map-cross'],
          Math.max(1.2, (isPointed ? 4 : 2.5) * zoom),
          Math.max(5, 12 * zoom),
          24,
        ),
      );
    } else if (kind === 'residual') {
      if (zoom < 0.12) continue;
      brush.faded(alpha * 0.9, () => {
        const width = Math.max(1, 2 * zoom);
        brush.way(points, palette['map-stream'], width, Math.max(4, 9 * zoom), 10);
        drawPlus(brush, target, points.at(-1)!);
      });
    } else if (source.kind === 'stream') {
      const width = Math.max(1.2, 2.5 * zoom);
      brush.faded(alpha, () =>
        brush.way(points, palette['map-stream'], width, Math.max(5, 12 * zoom), 24),
      );
    } else if (source.tower === null && source.parent === null) {
      const colour = palette['line-strong'];
      brush.faded(alpha, () =>
        brush.curve(points, true, colour, Math.max(1, 1.6 * zoom), Math.max(4, 8 * zoom)),
      );
    } else {
      const shown = visibility(target, zoom, brush.enlarged);
      if (shown === 0 || !brush.sees(brush.rect(target))) continue;
      brush.faded(alpha * shown * 0.8, () =>
        brush.curve(points, false, palette.soft, Math.max(0.8, 1.2 * zoom), Math.max(3, 5 * zoom)),
      );
    }
  }
}

/** The sum at the end of a residual connection. */
function drawPlus(brush: Brush, stream: Box, [x]: [number, number]): void {
  const radius = 7 * brush.zoom;
  if (radius < 3) return;
  const { canvas, palette } = brush;
  const [at, y] = brush.at(x - 8, stream.y + stream.height / 2);
  canvas.fillStyle = palette.panel;
  canvas.strokeStyle = palette['map-stream'];
  canvas.lineWidth = Math.max(1, 1.6 * brush.zoom);
  canvas.beginPath();
  canvas.arc(at, y, radius, 0, 2 * Math.PI);
  canvas.fill();
  canvas.stroke();
  canvas.beginPath();
  canvas.moveTo(at - radius * 0.6, y);
  canvas.lineTo(at + radius * 0.6, y);
  canvas.moveTo(at, y - radius * 0.6);
  canvas.lineTo(at, y + radius * 0.6);
  canvas.stroke();
}
