import type { editEn } from './edit.en';

export const editZh: Record<keyof typeof editEn, string> = {};
