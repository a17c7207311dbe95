export const cardEn = {} as const;
