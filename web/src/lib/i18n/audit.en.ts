export const auditEn = {
  'audit.title': 'Audit',
} as const;
