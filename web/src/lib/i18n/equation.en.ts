export const equationEn = {
  'equation.head': 'head',
  'equation.headLabel': 'head {head}',
  'equation.axis': 'axis {axis}',
  'equation.of': 'of {count}',
  'equation.previous': 'previous {axis}',
  'equation.next': 'next {axis}',
  'equation.expanded':
    'The module called one fused kernel here. The trace writes it out in the textbook’s steps; the results agree to rounding.',
  'equation.unwritten':
    '{op} only reserves memory: these numbers are whatever was there before, and mean nothing until they are written.',
  'equation.opaque':
    'There is no rule yet for the operator {op}: its numbers are shown, not explained.',
  'panel.widen': 'Use the whole width',
  'panel.narrow': 'Back beside the others',
  'role.parameter': 'parameter: learnt',
  'role.input': 'input',
  'role.activation': 'computed',
  'role.constant': 'constant',
  'matrix.unwritten': 'never written: memory as it was left',
  'matrix.rowMost': 'largest of the row',
  'matrix.cell': '{name}, row {row}, column {column}, {value}',
  'matrix.zoom': 'Zoom',
  'matrix.in': 'Zoom in',
  'matrix.out': 'Zoom out',
  'matrix.fit': 'Fit',
  'matrix.exact': 'Show the numbers',
  'matrix.digits': 'Nine digits',
} as const;
