/** Whether the page is dark, for what is painted rather than styled. */

class PaintTheme {
  dark = $state(false);

  constructor() {
    const root = document.documentElement;
    const read = () => (this.dark = root.dataset['theme'] === 'dark');
    read();
    new MutationObserver(read).observe(root, { attributeFilter: ['data-theme'] });
  }
}

export const paintTheme = new PaintTheme();
