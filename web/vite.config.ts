import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

import { licensesOf, thirdPartyLicenses } from './licenses.js';
import { singleFile } from './single-file.js';

/** KaTeX names each font in three formats; every browser that runs this page reads woff2. */
function onlyWoff2(): Plugin {
  return {
    name: 'only-woff2',
    enforce: 'pre',
    transform(code, id) {
      if (!id.includes('katex') || !id.endsWith('.css')) return null;
      return code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\(['"][a-z]+['"]\)/g, '');
    },
  };
}

/** The fonts that our formulas are set in; a page in one file carries no others. */
const OUR_FONTS = /KaTeX_(?:Main-(?:Regular|Italic)|Math-Italic|Size\d-Regular)\./;

function onlyOurFonts(): Plugin {
  return {
    name: 'only-our-fonts',
    enforce: 'pre',
    transform(code, id) {
      if (!id.includes('katex') || !id.endsWith('.css')) return null;
      return code.replace(/@font-face\s*\{[^}]*\}/g, (face) => (OUR_FONTS.test(face) ? face : ''));
    },
  };
}

/** What only a page with a server shows; a saved page has an empty component in its place. */
const SERVED = new RegExp(
  `/(?:${[
    ...['StartPage', 'RunForm', 'TourGuide', 'TourButton', 'LessonList', 'TrainingView'],
    ...['ClaimsView', 'AuditView', 'LessonHandouts'],
    ...['EditBox', 'RegionMenu', 'ExperimentsView', 'AnswerWords', 'ExportDialog', 'WordsPart'],
  ].join('|')})\\.svelte$`,
);
const NOTHING = '\0nothing';

function withoutServed(): Plugin {
  return {
    name: 'without-served',
    enforce: 'pre',
    resolveId: (id) => (SERVED.test(id) ? NOTHING : null),
    load: (id) => (id === NOTHING ? 'export default function Nothing() {}' : null),
  };
}

/** `vite build` makes the explorer's page, `vite build --mode saved` the one that is saved. */
export default defineConfig(({ mode }) =>
  mode === 'saved'
    ? {
        base: './',
        plugins: [
          onlyWoff2(),
          onlyOurFonts(),
          withoutServed(),
          svelte(),
          singleFile((bundle) => licensesOf(bundle, ['katex-fonts'])),
        ],
        build: {
          outDir: '../src/glassformer/explorer/static',
          emptyOutDir: false,
          target: 'es2022',
          assetsInlineLimit: () => true,
          cssCodeSplit: false,
          modulePreload: { polyfill: false },
          rolldownOptions: { input: 'saved.html', output: { codeSplitting: false } },
        },
      }
    : {
        base: './',
        plugins: [onlyWoff2(), svelte(), thirdPartyLicenses()],
        build: {
          outDir: '../src/glassformer/explorer/static',
          emptyOutDir: true,
          target: 'es2022',
          assetsInlineLimit: 0, // the content security policy allows no data: addresses
          modulePreload: { polyfill: false },
          rolldownOptions: {
            output: {
              entryFileNames: 'assets/[name]-[hash].js',
              chunkFileNames: 'assets/[name]-[hash].js',
              assetFileNames: 'assets/[name]-[hash][extname]',
            },
          },
        },
        server: { proxy: { '/api': 'http://127.0.0.1:8765' } },
      },
);
