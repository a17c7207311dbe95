export const editEn = {} as const;
