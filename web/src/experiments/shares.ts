/** Signed numbers as colours: how strong each is beside the largest. Pure. */

/** The largest size among numbers, at least a little: a share of it is from −1 to 1. */
export function largestOf(numbers: readonly number[]): number {
  const sizes = numbers.filter(Number.isFinite).map(Math.abs);
  return Math.max(...sizes, 0) || 1;
}

const STRONGEST = 42;

/** A ground for text: orange raises, blue lowers, as in the matrices; text stays readable on it. */
export function groundOf(value: number, largest: number): string {
  const share = Number.isFinite(value) ? Math.min(1, Math.abs(value) / largest) : 0;
  const hue = value < 0 ? 'var(--negative)' : 'var(--positive)';
  return `color-mix(in srgb, ${hue} ${Math.round(share * STRONGEST)}%, var(--panel))`;
}
