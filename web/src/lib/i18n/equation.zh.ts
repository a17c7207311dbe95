import type { equationEn } from './equation.en';

export const equationZh: Record<keyof typeof equationEn, string> = {};
