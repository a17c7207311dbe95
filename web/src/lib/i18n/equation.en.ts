export const equationEn = {} as const;
