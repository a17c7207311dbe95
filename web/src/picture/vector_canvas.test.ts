import { expect, it } from 'vitest';

import { escaped, svgFile, tag } from './svg_text';
import { VectorCanvas } from './vector_canvas';

it('writes what XML can hold, and nothing else', () => {
  expect(escaped('a<b & "c" \u0000\ud800 词')).toBe('a&lt;b &amp; &quot;c&quot; \ufffd\ufffd 词');
  expect(tag('a', { x: 1.23456, y: null, z: '' }, 'b')).toBe('<a x="1.23">b</a>');
  expect(tag('a', { fill: 'rgba(1, 2, 3, 0.5)', stroke: 'color(srgb 1 0 0.5)' })).toBe(
    '<a fill="rgb(1, 2, 3)" fill-opacity="0.5" stroke="rgb(255, 0, 128)"/>',
  );
  expect(svgFile({ width: 4, height: 3 }, '#fff', '')).toContain('viewBox="0 0 4 3"');
});

it('draws slabs, lines and texts where a canvas would', () => {
  const canvas = new VectorCanvas();
  canvas.fillStyle = 'red';
  canvas.globalAlpha = 0.5;
  canvas.beginPath();
  canvas.roundRect(0, 0, 10, 20, 2);
  canvas.fill();
  canvas.globalAlpha = 1;
  canvas.font = '600 10px system-ui, sans-serif';
  canvas.textAlign = 'right';
  canvas.textBaseline = 'middle';
  canvas.save();
  canvas.translate(5, 6);
  canvas.rotate(-Math.PI / 4);
  canvas.fillText('a<b', 0, 0);
  canvas.restore();
  canvas.strokeRect(1, 2, 3, 4);
  const [slab, text, frame] = canvas.parts;
  expect(slab).toContain('d="M2 0H8A2 2 0 0 1 10 2V18');
  expect(slab).toContain('fill="red" opacity="0.5"');
  expect(text).toContain('transform="translate(5 6)rotate(-45)"');
  expect(text).toContain('y="3.5"');
  expect(text).toContain('text-anchor="end"');
  expect(text).toContain('>a&lt;b</text>');
  expect(frame).not.toContain('transform');
});

it('rounds a corner', () => {
  const canvas = new VectorCanvas();
  canvas.beginPath();
  canvas.moveTo(0, 0);
  canvas.arcTo(10, 0, 10, 10, 4);
  canvas.lineTo(10, 10);
  canvas.stroke();
  expect(canvas.parts[0]).toContain('d="M0 0L6 0A4 4 0 0 1 10 4L10 10"');
});

it('begins anew when it is cleared', () => {
  const canvas = new VectorCanvas();
  canvas.strokeRect(0, 0, 1, 1);
  canvas.clearRect();
  expect(canvas.parts).toEqual([]);
});
