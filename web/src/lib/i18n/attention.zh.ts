import type { attentionEn } from './attention.en';

export const attentionZh: Record<keyof typeof attentionEn, string> = {};
