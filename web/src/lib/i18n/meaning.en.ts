/** “What is this?” on steps and cards, and the tour. */
export const meaningEn = {
  'meaning.what': 'What is this?',
  'meaning.lesson': 'Lesson',
  'meaning.paper': 'Paper, {section}',
} as const;
