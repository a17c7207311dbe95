export const startEn = {
  'start.title': 'Click any number.',
  'start.subtitle': 'Read the arithmetic that made it.',
  'start.lead':
    'Glassformer runs a real Transformer over your text and keeps every number of the run: from the answer back to the words and weights it came from. Change one, and everything after it is computed again.',
  'start.yours': 'Or run your own text',
  'start.live':
    'Live: the attention scores of “{text}” in the toy model, each word against every other. Click a number.',
  'start.liveCell': '{row}, {column}: {value}',
  'start.models': 'Models',
  'start.modelsLead':
    'They run on this machine, on the text you type; words that a model does not know are pointed out.',
  'start.textFor': 'Text for {model}',
  'start.parameters': '{n} parameters',
  'start.words': 'Its words:',
  'start.works': 'Right',
  'start.fails': 'Wrong',
  'start.right': '→ {right}',
  'start.should': 'should be: {right}',
  'start.own': 'Your own module',
  'start.ownLead':
    'Any nn.Module opens on this page, from a script or a notebook, whatever it computes.',
  'start.ownFolder':
    'So does the folder of a Hugging Face model, with its tokenizer, on the text you type.',
  'start.ownTraining':
    'A training run can be watched here: loss and attention as they change. thrones takes seconds.',
  'start.open': 'Open',
  'start.copy': 'Copy',
  'start.copied': 'Copied',
  'start.lessons': 'Lessons',
  'start.lessonsLead': 'Worked examples, step by step; their numbers are cells you can click.',
  'start.claimsLead':
    'What the texts say about Transformers, each claim decided by an experiment whose code you can read and whose switches you can turn.',
  'start.claimsOpen': 'Look at the claims',
  'start.checks': 'Check what is written',
  'start.auditLead':
    'Every printed number of a worked example recomputed: which are wrong, and which slip made them so. Bring your own article as a file.',
  'start.auditOpen': 'Audit an example',
  'start.classify': 'classifies',
  'start.translate': 'translates',
  'start.generate': 'continues texts',
  'start.module': 'module',
  'start.map': 'Every box is a part of a real run of “{text}”. Click to go in.',
  'start.mapOpen': 'Open this map',
} as const;
