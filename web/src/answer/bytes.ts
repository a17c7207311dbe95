/** Tokens that are not whole characters. */

const BYTE = /⟨[89A-F][0-9A-F]⟩/;

/** The first byte of a character outside ASCII that some tokens show: `⟨C3⟩`. */
export function byteIn(tokens: readonly (string | null)[]): string | null {
  return BYTE.exec(tokens.join(' '))?.[0] ?? null;
}
