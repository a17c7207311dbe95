import type { cardEn } from './card.en';

export const cardZh: Record<keyof typeof cardEn, string> = {};
