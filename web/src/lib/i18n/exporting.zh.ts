import type { exportingEn } from './exporting.en';

export const exportingZh: Record<keyof typeof exportingEn, string> = {
  'exporting.title': '导出',
  'exporting.what': '内容',
  'exporting.step': '当前步骤及其所读取的量',
  'exporting.module': '{module} 的各步骤',
  'exporting.trace': '整次运行',
  'exporting.steps': '{n} 个步骤',
  'exporting.format': '格式',
  'exporting.md': 'Markdown',
  'exporting.tex': 'LaTeX',
  'exporting.html': '网页（单个文件）',
  'exporting.xlsx': '带实时公式的工作簿',
  'exporting.json': 'JSON',
  'exporting.language': '语言',
  'exporting.preview': '预览',
  'exporting.previewCut': '仅显示前 {n} 个字符；文件中是全部内容。',
  'exporting.noPreview': '此格式没有预览。',
  'exporting.making': '正在生成文件……',
  'exporting.download': '下载',
  'exporting.saved': '已保存 {name}（{size}）。',
  'exporting.tooMany': '该模块有 {n} 个步骤，最多可导出 {most} 个。请导出整次运行。',
};
