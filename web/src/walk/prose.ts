/** A sentence about a step of any run, made from its operator, its shape and its operands. */

import type { StepInfo, TraceInfo } from '../lib/api';
import { t, type Key } from '../lib/i18n';
import { formatShape } from '../matrix/numbers';

const SENTENCES: [RegExp, Key][] = [
  [/^(linear|addmm)$/, 'run.linear'],
  [/^(matmul|mm|bmm|einsum)$/, 'run.matmul'],
  [/softmax$/, 'run.softmax'],
  [/layer_norm$/, 'run.layer_norm'],
  [/^embedding$/, 'run.embedding'],
  [/^(masked_fill|where)$/, 'run.mask'],
  [/^add$/, 'run.add'],
  [/^sub$/, 'run.sub'],
  [/^mul$/, 'run.mul'],
  [/^div$/, 'run.div'],
  [/^relu$/, 'run.relu'],
  [/^(gelu|silu)$/, 'run.gelu'],
  [/^mean$/, 'run.mean'],
  [/^sum$/, 'run.sum'],
];
const NEEDS_TWO: Key[] = ['run.matmul', 'run.add', 'run.sub'];

/** The steps of a run that a reader should see, in order; parameters are met where they are used. */
export function mainSteps(trace: TraceInfo): StepInfo[] {
  return trace.steps.filter((step) => step.is_main && step.role === 'activation');
}

/** What happens in a step, in one line. */
export function sentence(trace: TraceInfo, step: StepInfo): string {
  const names = step.operands.map(({ step: number, argument }) =>
    number === null ? argument : trace.steps[number].short,
  );
  const values = {
    name: step.short,
    shape: formatShape(step.shape),
    a: names[0] ?? '',
    b: names[1] ?? '',
    op: step.op,
    operands: names.join(', '),
    terms: step.operands[0]?.shape.at(-1) ?? 0,
  };
  if (step.role === 'input') return t('run.input', values);
  if (step.is_view) return t('run.view', values);
  const found = SENTENCES.find(([pattern]) => pattern.test(step.op))?.[1];
  if (found === undefined || (NEEDS_TWO.includes(found) && names.length < 2)) {
    return t('run.other', values);
  }
  return t(found, values);
}
