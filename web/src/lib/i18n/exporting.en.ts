export const exportingEn = {} as const;
