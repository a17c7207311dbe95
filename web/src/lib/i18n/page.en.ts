export const pageEn = {
  'page.export': 'Export',
  'page.unreachable': 'The server does not answer: is `glassformer explore` still running?',
} as const;
