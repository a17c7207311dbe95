export const walkEn = {
  'walk.lessons': 'Lessons',
  'walk.intro':
    'A course in order: worked examples in steps. Every number in them is a cell of a recorded run: click it to see its arithmetic.',
  'walk.exercises':
    'Build it yourself: exercises in which you write the attention, the norms and the loss, and your code is run and checked:',
  'walk.thisRun': 'This run, step by step',
  'walk.thisRunSummary': '{model}: “{text}”, from the input to the answer, one operator at a time.',
  'walk.all': 'All lessons',
  'walk.making': 'The lesson is being computed …',
  'walk.makingLong': 'Some lessons train a small model first; that takes a while.',
  'walk.step': 'Step {step} of {total}',
  'walk.steps': 'Steps',
  'walk.before': 'Back',
  'walk.after': 'Next',
  'walk.keys': 'J next, K back',
  'walk.inTheText': 'In the text:',
  'walk.cell': '{row}, {column}: {value}. Explain it',
  'walk.explain': 'Explain {name}',
  'walk.where': 'where',
  'walk.marked': 'the number of the formula above',
  'walk.firstNumber': 'Its first number:',
} as const;
