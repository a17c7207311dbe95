import { expect, it } from 'vitest';

import type { DecodeAnswer, LessonInfo } from './api';
import { SavedPlaylist, type EmbeddedPlaylist } from './saved_playlist';
import { Refused } from './source';

const lesson = (language: string) => ({ name: 'order', language }) as unknown as LessonInfo;
const answer = { text: 'A dog.' } as DecodeAnswer;
const source = new SavedPlaylist({
  title: null,
  playlist: [{ link: '#/lesson/order/2', title: 'order', note: { en: '', zh: '' } }],
  traces: [],
  lessons: [{ name: 'order', settings: [], en: lesson('en'), zh: lesson('zh') }],
  searches: [{ request: { model: 'en-de', text: 'A dog.', beam: 4, min_p: null }, answer }],
} as unknown as EmbeddedPlaylist);

it('answers with the lessons and searches of its views', async () => {
  expect(source.saved.playlist).toHaveLength(1);
  expect(await source.lesson('order', 'zh', [])).toEqual(lesson('zh'));
  await expect(source.lesson('order', 'zh', ['encoding=rotary'])).rejects.toBeInstanceOf(Refused);
  expect(await source.decode({ model: 'en-de', text: 'A dog.', beam: 4 } as never)).toBe(answer);
  await expect(source.decode({ model: 'en-de', text: 'A cat.' } as never)).rejects.toBeInstanceOf(
    Refused,
  );
});

it('has no other traces, and computes nothing', async () => {
  await expect(source.trace('saved-0')).rejects.toBeInstanceOf(Refused);
  await expect(source.edit()).rejects.toBeInstanceOf(Refused);
});
