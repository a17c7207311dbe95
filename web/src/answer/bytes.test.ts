import { expect, test } from 'vitest';

import { byteIn } from './bytes';

test('finds the byte that a token shows', () => {
  expect(byteIn(['␣Hund', '␣⟨C3⟩'])).toBe('⟨C3⟩');
  expect(byteIn(['ü', null, '⟨0A⟩'])).toBe(null); // ASCII is a whole character
  expect(byteIn(['⟨50257⟩'])).toBe(null); // an id that its tokenizer has no text for
});
