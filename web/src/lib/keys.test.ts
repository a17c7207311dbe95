import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { clicked, isFree, isUndo, stepOf } from './keys';
import { lecture } from './lecture.svelte';

class FakeElement {
  isContentEditable = false;
  type = 'text';
  constructor(readonly dialog: object | null = null) {}
  closest(): object | null {
    return this.dialog;
  }
}
class Input extends FakeElement {}
class TextArea extends FakeElement {}
class Select extends FakeElement {}

beforeEach(() => {
  vi.stubGlobal('HTMLElement', FakeElement);
  vi.stubGlobal('HTMLInputElement', Input);
  vi.stubGlobal('HTMLTextAreaElement', TextArea);
  vi.stubGlobal('HTMLSelectElement', Select);
});

afterEach(() => {
  vi.unstubAllGlobals();
});

function press(key: string, fields: object = {}): KeyboardEvent {
  const plain = { ctrlKey: false, altKey: false, metaKey: false, shiftKey: false };
  const event = { key, target: new FakeElement(), defaultPrevented: false, ...plain, ...fields };
  return event as unknown as KeyboardEvent;
}

const box = (kind: string) => Object.assign(new Input(), { type: kind });

describe('a key', () => {
  it('is free outside of boxes for text, dialogs and other handlers', () => {
    expect(isFree(press('j'))).toBe(true);
    expect(isFree(press('j', { target: null }))).toBe(true);
    for (const target of [box('text'), new TextArea(), new Select(), new FakeElement({})]) {
      expect(isFree(press('j', { target }))).toBe(false);
    }
    for (const target of [box('range'), box('checkbox')]) {
      expect(isFree(press('j', { target }))).toBe(true);
    }
    expect(isFree(press('j', { defaultPrevented: true }))).toBe(false);
    expect(isFree(press('j', { ctrlKey: true }))).toBe(false);
  });

  it('goes on with J and back with K', () => {
    expect(['j', 'K', 'x'].map((key) => stepOf(press(key)))).toEqual([1, -1, 0]);
    expect(stepOf(press('j', { metaKey: true }))).toBe(0);
  });

  it('undoes with Ctrl+Z or ⌘Z, but not inside a box that has an undo of its own', () => {
    expect(isUndo(press('z', { ctrlKey: true }))).toBe(true);
    expect(isUndo(press('Z', { metaKey: true }))).toBe(true);
    expect(isUndo(press('z', { ctrlKey: true, shiftKey: true }))).toBe(false);
    expect(isUndo(press('z'))).toBe(false);
    expect(isUndo(press('z', { ctrlKey: true, target: box('text') }))).toBe(false);
  });
});

it('in a lecture the keys of a clicker step, unless arrows belong to what has the focus', () => {
  vi.stubGlobal('Element', FakeElement);
  expect(stepOf(press('PageDown'))).toBe(0);
  lecture.isOn = true;
  expect(
    ['PageDown', 'ArrowRight', 'PageUp', 'ArrowLeft', 'x'].map((key) => stepOf(press(key))),
  ).toEqual([1, 1, -1, -1, 0]);
  lecture.isOn = false;
  const inGrid = { target: new FakeElement({}) };
  expect(clicked(press('ArrowRight', inGrid))).toBe(0);
  expect(clicked(press('PageDown', inGrid))).toBe(1);
});
