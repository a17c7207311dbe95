/** How to draw what is on a canvas once more, on another: pictures that are saved are not pixels. */

type Drawing = (context: CanvasRenderingContext2D) => void;

export const vectors = new WeakMap<HTMLCanvasElement, Drawing>();
