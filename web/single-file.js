import { createHash } from 'node:crypto';

/**
 * One page in one file: script and style stand in it, and its policy allows these and no others.
 *
 * @param {(bundle: import('vite').Rolldown.OutputBundle) => string} licenses what a copy must carry
 * @returns {import('vite').Plugin}
 */
export function singleFile(licenses) {
  return {
    name: 'single-file',
    enforce: 'post',
    // After Vite's own last touch: it fills in what dynamic imports are to load.
    generateBundle: {
      order: 'post',
      handler(_options, bundle) {
        const files = Object.values(bundle);
        const page = files.find(({ fileName }) => fileName.endsWith('.html'));
        const script = only(files, '.js').code.trim().replaceAll('</script', '<\\/script');
        const style = String(only(files, '.css').source).trim().replaceAll('</style', '<\\/style');
        const policy = [
          "default-src 'none'",
          `script-src '${hash(script)}'`,
          `style-src-elem '${hash(style)}'`,
          "style-src-attr 'unsafe-inline'", // KaTeX draws tall brackets with style attributes
          'img-src data: blob:',
          'font-src data:',
          "base-uri 'none'",
          "form-action 'none'",
        ].join('; ');
        const parts = [
          [/<meta charset="utf-8" \/>/, (found) => `${found}\n    ${meta(policy)}`],
          [/ *<script type="module"[^>]*src=[^>]*><\/script>\n/, () => ''],
          [/<link rel="stylesheet"[^>]*>/, () => `<style>${style}</style>`],
          [
            /<\/body>/,
            () =>
              `<script type="text/plain" id="licenses">\n${licenses(bundle)}</script>\n` +
              `    <script type="module">${script}</script>\n  </body>`,
          ],
        ];
        page.source = parts.reduce((text, [mark, make]) => {
          if (!mark.test(text)) throw new Error(`the page has no ${mark}`);
          return text.replace(mark, make);
        }, String(page.source));
        for (const name of Object.keys(bundle))
          if (bundle[name] !== page) Reflect.deleteProperty(bundle, name);
      },
    },
  };
}

function only(files, ending) {
  const found = files.filter(({ fileName }) => fileName.endsWith(ending));
  if (found.length !== 1) throw new Error(`${found.length} files end in ${ending}, not one`);
  return found[0];
}

function hash(text) {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}

function meta(policy) {
  return `<meta http-equiv="Content-Security-Policy" content="${policy}" />`;
}
