/** Numbers for readers: 4 significant digits, up to 9 where a float32 must be restorable. */

export const SHORTEST = 3;
export const SHORT = 4;
export const EXACT = 9;
/** Two decimals, not significant digits: for shares, where a lecture's large type has no more room. */
export const HUNDREDTHS = -2;
/** In place of a number: memory that nothing wrote to. */
export const UNWRITTEN = '∅';

/** Significant digits, whole numbers as such, as `trace.text.number` writes them but with a real minus. */
export function formatNumber(value: number, digits: number = SHORT): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  if (Number.isInteger(value) && Math.abs(value) < 10 ** Math.max(digits, 6)) {
    return String(value).replace('-', '−');
  }
  if (digits === EXACT) value = shortest(value);
  const written = digits < 0 ? value.toFixed(-digits) : general(value, digits);
  return written.replaceAll('-', '−');
}

/** The number with the fewest digits that is the same float32: −2.6 for −2.5999999046… */
export function shortest(value: number): number {
  if (Math.fround(value) !== value) return value;
  if (Number.isInteger(value) && Math.abs(value) < 10 ** EXACT) return value;
  for (let digits = 1; digits < EXACT; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return Number(value.toPrecision(EXACT));
}

/** C's `%.{digits}g`: no trailing zeros, exponents of at least two digits. */
function general(value: number, digits: number): string {
  const [mantissa, power] = value.toExponential(digits - 1).split('e');
  const exponent = Number(power);
  if (exponent >= -4 && exponent < digits) {
    return trimmed(value.toFixed(Math.max(0, digits - 1 - exponent)));
  }
  const sign = exponent < 0 ? '-' : '+';
  return `${trimmed(mantissa)}e${sign}${String(Math.abs(exponent)).padStart(2, '0')}`;
}

function trimmed(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** Text of ours with its hyphens before numbers made minus signs, which are as wide as digits. */
export function typeset(text: string): string {
  return text.replace(/(^|[^\w.)\]])-(?=[\d.∞])/g, '$1−').replace(/e-(?=\d)/g, 'e−');
}

/** With its sign always there: `+0.113`; 0 has none. */
export function formatSigned(value: number, digits: number = SHORT): string {
  return value > 0 ? `+${formatNumber(value, digits)}` : formatNumber(value, digits);
}

/** In percent; what would wrongly read 0.0% is told to be less than the last digit. */
export function formatShare(share: number): string {
  const percent = share * 100;
  if (percent > 0 && percent < 0.05) return '< 0.1%';
  return `${percent >= 10 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)}%`;
}

/** Two shares with as many decimals as it takes to tell them apart; alike from 0.0001% on down. */
export function formatShares(one: number, other: number): [string, string] {
  const [first, second] = [formatShare(one), formatShare(other)];
  if (first !== second) return [first, second];
  for (let decimals = 1; decimals <= 4; decimals++) {
    const [a, b] = [one, other].map((share) => `${(share * 100).toFixed(decimals)}%`);
    if (a !== b) return [a!, b!];
  }
  return [first, second];
}

/** `3 × 4`, and `scalar`'s empty shape as an empty text. */
export function formatShape(shape: readonly number[]): string {
  return shape.join(' × ');
}

/** What a person typed as a number: decimal comma and real minus allowed; undefined if it is none. */
export function parseNumber(text: string): number | undefined {
  const plain = text
    .trim()
    .replace(/[−–]/g, '-')
    .replace(/^([^.]*),([^.,]*)$/, '$1.$2');
  if (/^[+-]?(inf(inity)?|∞)$/i.test(plain)) return plain.startsWith('-') ? -Infinity : Infinity;
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain)) return undefined;
  return Number(plain);
}
