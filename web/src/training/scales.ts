/** From numbers to places on a chart. */

export interface Axis {
  low: number;
  high: number;
  ticks: number[];
}

/** Round steps of 1, 2 or 5 times a power of ten; the ends are ticks too. */
export function axisOver(low: number, high: number, wanted = 5): Axis {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return { low: 0, high: 1, ticks: [0, 1] };
  if (low === high) {
    const margin = Math.abs(low) * 0.1 || 1;
    return axisOver(low - margin, high + margin, wanted);
  }
  const step = roundStep((high - low) / wanted);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  const ticks = Array.from({ length: last - first + 1 }, (_, n) => (first + n) * step);
  return { low: ticks[0], high: ticks[ticks.length - 1], ticks };
}

/** Powers of ten around the numbers, for an axis of logarithms. */
export function logAxis(low: number, high: number): Axis {
  const first = Math.floor(Math.log10(low) + 1e-9);
  const last = Math.max(first + 1, Math.ceil(Math.log10(high) - 1e-9));
  const ticks = Array.from({ length: last - first + 1 }, (_, n) => 10 ** (first + n));
  return { low: ticks[0], high: ticks[ticks.length - 1], ticks };
}

/** The smallest of 1, 2, 5 times a power of ten that is not below a number. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const times = [1, 2, 5, 10].find((factor) => factor * power >= least * (1 - 1e-9)) ?? 10;
  return times * power;
}

/** A tick as text: no more digits than the step between ticks needs. */
export function tickText(tick: number, axis: Axis): string {
  const step = axis.ticks.length > 1 ? axis.ticks[1] - axis.ticks[0] : 1;
  if (Math.abs(tick) >= 10_000) {
    return new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }).format(
      tick,
    );
  }
  const decimals = Math.min(8, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return tick.toFixed(decimals).replace('-', '−');
}

/** Seconds as h:mm:ss or m:ss. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const rest = String(whole % 60).padStart(2, '0');
  const minutes = Math.floor(whole / 60) % 60;
  const hours = Math.floor(whole / 3600);
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, '0')}:${rest}` : `${minutes}:${rest}`;
}
