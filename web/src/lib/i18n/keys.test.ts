import { expect, it } from 'vitest';

const areas = import.meta.glob<Record<string, Record<string, string>>>('./*.en.ts', {
  eager: true,
});

const sources = import.meta.glob<string>(
  ['../../**/*.{ts,svelte}', './index.ts', '!../../**/*.test.ts', '!./*.{en,zh}.ts'],
  { eager: true, query: '?raw', import: 'default' },
);
const keys = Object.values(areas).flatMap((area) => Object.values(area).flatMap(Object.keys));

it('has each key in one area: of two alike the last would silently win', () => {
  expect(keys.length).toBeGreaterThan(400);
  expect(keys.filter((key, at) => keys.indexOf(key) !== at)).toEqual([]);
});

it('has no key that nothing says', () => {
  const code = Object.values(sources).join('\n');
  const begun = [...code.matchAll(/`([\w. ]+)\$\{/g)].map(([, start]) => start!);
  const isSaid = (key: string) =>
    code.includes(`'${key}'`) || begun.some((start) => key.startsWith(start));
  expect(keys.filter((key) => !isSaid(key))).toEqual([]);
});
