import type { trainingEn } from './training.en';

export const trainingZh: Record<keyof typeof trainingEn, string> = {};
