/** Lecture mode, as far as the page knows of it from the start; `lecture/words.ts` has the rest. */
export const lectureEn = {
  'lecture.menu': 'Present',
  'lecture.start': 'Lecture mode',
  'lecture.pin': 'Pin this view to the playlist',
  'lecture.playlist': 'Playlist ({n}) …',
  'lecture.on': 'Lecture mode is on. PageDown and PageUp step, Escape leaves.',
  'lecture.off': 'Lecture mode is off.',
  'lecture.pinned': 'Pinned: view {n} of the playlist.',
  'lecture.key': 'Lecture mode: large type and nothing else',
  'lecture.keyStep': 'In a lecture: next and previous (what clickers send)',
  'lecture.keyFull': 'In a lecture: full screen',
  'picture.save': 'Save picture',
} as const;
