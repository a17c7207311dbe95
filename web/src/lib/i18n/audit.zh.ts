import type { auditEn } from './audit.en';

export const auditZh: Record<keyof typeof auditEn, string> = {
  'audit.title': '核对',
};
