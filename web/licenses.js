import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const FILE = 'THIRD_PARTY_LICENSES.txt';
const RULE = '='.repeat(78);

/**
 * The licences of what the bundler took in, however it came there, in one file beside it.
 *
 * @returns {import('vite').Plugin}
 */
export function thirdPartyLicenses() {
  return {
    name: 'third-party-licenses',
    generateBundle(_options, bundle) {
      this.emitFile({ type: 'asset', fileName: FILE, source: licensesOf(bundle) });
    },
  };
}

/** The licences of what is in a bundle; `more`: of what can no longer be told from it. */
export function licensesOf(bundle, more = []) {
  const found = Object.values(bundle).flatMap(sources).flatMap(packagesOf);
  const names = [...new Set([...found, ...more])].sort();
  const head = 'The page of the Glassformer explorer contains this software and these fonts.\n';
  return [head, ...names.map(licenseOf)].join(`\n${RULE}\n\n`);
}

function sources(file) {
  return file.type === 'chunk' ? Object.keys(file.modules) : file.originalFileNames;
}

function packagesOf(source) {
  const installed = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(source);
  const helper = /^\0(vite|rolldown)\//.exec(source); // what these add of their own
  const fonts = source.includes('katex/dist/fonts/') ? ['katex-fonts'] : [];
  return [...[installed, helper].flatMap((found) => found?.[1] ?? []), ...fonts];
}

function licenseOf(name) {
  const ours = join('licenses', `${name}.txt`); // of what does not bring its own
  if (existsSync(ours)) return `${name}\n\n${readFileSync(ours, 'utf-8').trim()}\n`;
  const folder = join('node_modules', name);
  const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf-8'));
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  if (file === undefined) throw new Error(`${name} brings no licence: put it into web/${ours}`);
  // What Vite itself was built from is not in the page.
  const [text] = readFileSync(join(folder, file), 'utf-8').split('# Licenses of bundled');
  return `${name} ${version} (${license})\n\n${text.trim()}\n`;
}
