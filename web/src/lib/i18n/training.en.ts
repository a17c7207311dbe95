export const trainingEn = {} as const;
