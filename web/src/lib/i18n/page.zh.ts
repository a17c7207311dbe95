import type { pageEn } from './page.en';

export const pageZh: Record<keyof typeof pageEn, string> = {
  'page.export': '导出',
  'page.unreachable': '服务器没有应答：`glassformer explore` 还在运行吗？',
};
