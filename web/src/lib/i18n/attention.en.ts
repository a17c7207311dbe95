export const attentionEn = {} as const;
