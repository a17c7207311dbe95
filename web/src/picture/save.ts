/** A part of the page as a file: SVG, or PNG with twice the pixels of the screen. */

import { saveFile } from '../exporting/files';
import { svgOf, type Picture } from './svg_of';

const PNG_SCALE = 2;
/** No browser has larger canvases for certain. */
const MOST_PIXELS = 16_000;

export async function savePicture(
  root: HTMLElement,
  name: string,
  format: 'png' | 'svg',
): Promise<void> {
  const picture = await pictureOf(root);
  const file =
    format === 'svg'
      ? new Blob([picture.svg], { type: 'image/svg+xml' })
      : await pngOf(picture, PNG_SCALE);
  saveFile(`${plain(name)}.${format}`, file);
}

/** The picture of all of an element, also of what it would have to be scrolled for. */
function pictureOf(root: HTMLElement): Promise<Picture> {
  root.dataset['whole'] = ''; // its style then cuts nothing off
  const made = svgOf(root); // draws at once and waits for fonts only: no frame is shown meanwhile
  delete root.dataset['whole'];
  return made;
}

export async function pngOf({ width, height, svg }: Picture, scale: number): Promise<Blob> {
  const address = URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const fitting = Math.min(scale, MOST_PIXELS / width, MOST_PIXELS / height);
    const canvas = document.createElement('canvas');
    canvas.width = Math.round(width * fitting);
    canvas.height = Math.round(height * fitting);
    canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done, fail) =>
      canvas.toBlob((file) => (file === null ? fail(new Error('no picture')) : done(file))),
    );
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** A name for a file: letters, numbers, and hyphens between. */
export function plain(name: string): string {
  const letters = name.replace(/[^\p{Letter}\p{Number}.]+/gu, '-').replace(/^[-.]+|[-.]+$/g, '');
  return letters.slice(0, 80) || 'picture';
}
