/** The page's colours, for what is painted rather than styled. */

interface PaintColours {
  dark: boolean;
  background: string;
  foreground: string;
  changed: string;
}

class PaintTheme {
  colours = $state.raw<PaintColours>(read());

  constructor() {
    const follow = () => (this.colours = read());
    new MutationObserver(follow).observe(document.documentElement, {
      attributeFilter: ['data-theme'],
    });
  }

  get dark(): boolean {
    return this.colours.dark;
  }
}

/** Reading styles makes the browser lay the page out: it is done once for each theme. */
function read(): PaintColours {
  const root = document.documentElement;
  const style = getComputedStyle(root);
  return {
    dark: root.dataset['theme'] === 'dark',
    background: style.getPropertyValue('--panel'),
    foreground: style.getPropertyValue('--text'),
    changed: style.getPropertyValue('--changed'),
  };
}

export const paintTheme = new PaintTheme();
