export const tourEn = {
  'tour.start': 'Tour: 60 seconds',
  'tour.again': 'The tour again',
  'tour.title': 'Tour',
  'tour.place': '{at} of {count}',
  'tour.next': 'Next',
  'tour.back': 'Back',
  'tour.end': 'End the tour',
  'tour.keys': 'Arrow keys go on and back, Esc ends.',
  'tour.answer':
    'A tiny Transformer has read “I am not happy”. Its answer is “sad”, with the probability of each answer beside it.',
  'tour.weights':
    'Why? These are its attention weights: each row says how one word shares out its attention, each column stands for a word that it may attend to. Yellow is 100%, dark blue 0.',
  'tour.not':
    'Every word gives 99% of its attention to “not”. The card shows the arithmetic behind this number; each number in it can be clicked, too.',
  'tour.edit':
    'Now this number is set to 0: “happy” no longer attends to “not”. Everything after it is computed again, and what changed is marked.',
  'tour.turn': 'The answer turns from “sad” to “happy”: it hung on this one number.',
  'tour.yours':
    'Now your sentence: type it here and press Enter. Every number of it will be there to click.',
} as const;
