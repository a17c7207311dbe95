import { expect, it } from 'vitest';

const areas = import.meta.glob<Record<string, Record<string, string>>>('./*.en.ts', {
  eager: true,
});

it('has each key in one area: of two alike the last would silently win', () => {
  const keys = Object.values(areas).flatMap((area) => Object.values(area).flatMap(Object.keys));
  expect(keys.length).toBeGreaterThan(400);
  expect(keys.filter((key, at) => keys.indexOf(key) !== at)).toEqual([]);
});
