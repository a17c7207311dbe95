import type { decodingEn } from './decoding.en';

export const decodingZh: Record<keyof typeof decodingEn, string> = {};
