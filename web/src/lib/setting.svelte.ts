/** What the reader chose and the browser remembers: language and theme. */

import type { Language } from './api';

export type Theme = 'auto' | 'light' | 'dark';

class Setting {
  language = $state<Language>(
    savedLanguage() ?? remembered('language', ['en', 'zh']) ?? preferredLanguage(),
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

/** The language that a page was saved in. */
function savedLanguage(): Language | null {
  const saved = document.documentElement.dataset['language'];
  return saved === 'en' || saved === 'zh' ? saved : null;
}

function preferredLanguage(): Language {
  return navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en';
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
