/** What of a trace is exported. */

import type { TraceInfo } from '../lib/api';

export type Scope = 'step' | 'module' | 'trace';

/** The server takes no more steps by number. */
export const MOST_STEPS = 256;

/** The numbers of the steps to export, in their order; none means the whole trace. */
export function stepsOf(trace: TraceInfo, step: number | null, scope: Scope): number[] {
  if (scope === 'trace' || step === null) return [];
  if (scope === 'module') {
    const { module } = trace.steps[step];
    return trace.steps.filter((one) => one.module === module).map(({ number }) => number);
  }
  const read = trace.steps[step].operands.flatMap(({ step: number }) =>
    number === null ? [] : [number],
  );
  return [...new Set([...read, step])].sort((a, b) => a - b);
}

/** Bytes as people read them. */
export function sizeText(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
