import type { meaningEn } from './meaning.en';

export const meaningZh: Record<keyof typeof meaningEn, string> = {
  'meaning.what': '这是什么？',
  'meaning.lesson': '课程',
  'meaning.paper': '论文 {section} 节',
};
