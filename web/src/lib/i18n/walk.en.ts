export const walkEn = {} as const;
