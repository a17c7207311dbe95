/**
 * Language and theme. The reader's own choice is remembered; before there is one, the page has the
 * language of its browser, and a saved page otherwise the one that it was written in. A link that
 * names a language sets it for this visit (`route.svelte.ts`).
 */

import type { Language } from './api';

export type Theme = 'auto' | 'light' | 'dark';

const LANGUAGES: readonly Language[] = ['en', 'zh'];

class Setting {
  language = $state<Language>(
    remembered('language', LANGUAGES) ?? preferredLanguage() ?? savedLanguage() ?? 'en',
  );
  theme = $state<Theme>(remembered('theme', ['auto', 'light', 'dark']) ?? 'auto');

  setLanguage(language: Language): void {
    this.language = language;
    remember('language', language);
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    remember('theme', theme);
  }
}

export const setting = new Setting();

/** The first of the browser's languages that the page has. */
function preferredLanguage(): Language | null {
  for (const wanted of navigator.languages) {
    const found = LANGUAGES.find((one) => wanted.toLowerCase().startsWith(one));
    if (found !== undefined) return found;
  }
  return null;
}

/** The language that a page was saved in. */
function savedLanguage(): Language | null {
  const saved = document.documentElement.dataset['language'];
  return LANGUAGES.find((one) => one === saved) ?? null;
}

function remembered<T extends string>(name: string, allowed: readonly T[]): T | null {
  try {
    const value = localStorage.getItem(`glassformer.${name}`);
    return allowed.find((one) => one === value) ?? null;
  } catch {
    return null; // storage is switched off
  }
}

function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`glassformer.${name}`, value);
  } catch {
    // storage is switched off: the choice lasts until the page is closed
  }
}
