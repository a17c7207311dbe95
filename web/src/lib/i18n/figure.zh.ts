import type { figureEn } from './figure.en';

export const figureZh: Record<keyof typeof figureEn, string> = {
  'figure.steps': '图的各步',
  'figure.play': '播放',
  'figure.pause': '暂停',
  'figure.back': '退一步',
  'figure.next': '进一步',
  'figure.at': '第 {step} 步，共 {total} 步',
};
