import type { walkEn } from './walk.en';

export const walkZh: Record<keyof typeof walkEn, string> = {};
