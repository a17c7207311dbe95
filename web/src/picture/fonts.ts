/** The fonts that come with the page, put into a picture that uses them; others belong to systems. */

/** Style rules for the faces among `used` (family, weight and style, with bars between). */
export async function fontFaces(used: ReadonlySet<string>): Promise<string> {
  const wanted = new Set([...used].flatMap(keysOf));
  const rules = facesHere().filter((face) => wanted.has(keyOf(face)));
  const faces = await Promise.all(rules.map(embedded));
  return faces.join('');
}

function facesHere(): CSSFontFaceRule[] {
  return [...document.styleSheets].flatMap((sheet) =>
    rulesOf(sheet).filter((rule) => rule instanceof CSSFontFaceRule),
  );
}

/** The rules of a style sheet; those of an extension of the browser may not be read. */
function rulesOf(sheet: CSSStyleSheet): CSSRule[] {
  try {
    return [...sheet.cssRules];
  } catch {
    return [];
  }
}

function keysOf(used: string): string[] {
  const [families = '', weight, style] = used.split('|');
  return families.split(',').map((family) => [plain(family), weight, style].join('|'));
}

function keyOf({ style }: CSSFontFaceRule): string {
  const [family, weight, slant] = ['font-family', 'font-weight', 'font-style'].map((name) =>
    style.getPropertyValue(name),
  );
  const heavy = weight === 'bold' ? '700' : weight === 'normal' || !weight ? '400' : weight;
  return [plain(family!), heavy, slant || 'normal'].join('|');
}

function plain(family: string): string {
  return family.trim().replace(/^["']|["']$/g, '');
}

async function embedded(face: CSSFontFaceRule): Promise<string> {
  const [family, weight, style] = keyOf(face).split('|');
  const source = /url\(["']?([^"')]+)["']?\)/.exec(face.style.getPropertyValue('src'))?.[1];
  if (source === undefined) return '';
  const data = source.startsWith('data:') ? source : await fetched(source, face);
  return (
    `@font-face{font-family:${family};font-weight:${weight};font-style:${style};` +
    `src:url(${data}) format("woff2")}`
  );
}

async function fetched(source: string, face: CSSFontFaceRule): Promise<string> {
  const address = new URL(source, face.parentStyleSheet?.href ?? location.href);
  const bytes = new Uint8Array(await (await fetch(address)).arrayBuffer());
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return `data:font/woff2;base64,${btoa(text)}`;
}
