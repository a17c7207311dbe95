export const decodingEn = {} as const;
