import type { exportingEn } from './exporting.en';

export const exportingZh: Record<keyof typeof exportingEn, string> = {};
