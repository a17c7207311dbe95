/** A card as text: for LaTeX and for Markdown. */

import type { CardInfo } from '../lib/api';

/** The formula with its value; a power of ten spelt out as LaTeX has it. */
export function asLatex(card: CardInfo): string {
  const value = card.exact
    .replace(/e([+-]?)0*(\d+)$/, (_, sign: string, power: string) => {
      return ` \\times 10^{${sign === '-' ? '-' : ''}${power}}`;
    })
    .replace('∞', '\\infty');
  return `${card.tex} ${card.reproduced ? '=' : '\\neq'} ${value}`;
}

/** The sign between a card's arithmetic and its number: no "=" where a rule does not reproduce it. */
export function relation(card: CardInfo): '=' | '≠' {
  return card.reproduced ? '=' : '≠';
}

export function asMarkdown(card: CardInfo, dtype: string): string {
  const lines = [`**${card.cell.name}** = ${card.exact} (${dtype})`];
  const sign = relation(card);
  if (card.formula !== '') lines.push(`\`${sign} ${card.formula}\``);
  if (card.numbers !== '') lines.push(`\`${sign} ${card.numbers}\``);
  for (const { symbol, symbols, numbers } of card.definitions) {
    lines.push(`\`${symbol} = ${symbols} = ${numbers}\``);
  }
  if (!card.is_given) lines.push(`float64: ${String(card.recomputed)}`);
  if (card.source !== null) {
    lines.push(`\`${card.source.file}:${card.source.line}\`: \`${card.source.text.trim()}\``);
  }
  return lines.join('\n\n') + '\n';
}
