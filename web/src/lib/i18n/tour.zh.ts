import type { tourEn } from './tour.en';

export const tourZh: Record<keyof typeof tourEn, string> = {
  'tour.start': '60 秒导览',
  'tour.again': '再看一遍导览',
  'tour.title': '导览',
  'tour.place': '第 {at} 步，共 {count} 步',
  'tour.next': '下一步',
  'tour.back': '上一步',
  'tour.end': '结束导览',
  'tour.keys': '方向键前进或后退，Esc 结束。',
  'tour.answer':
    '一个极小的 Transformer 读了“I am not happy”。它的回答是“sad”（难过），旁边是每个答案的概率。',
  'tour.weights':
    '为什么？这是它的注意力权重：每一行是一个词怎样分配它的注意力，每一列是可以被它关注的一个词，黄色是 100%，深蓝是 0。',
  'tour.not':
    '每个词都把 99% 的注意力放在“not”上。卡片列出这个数是怎样算出来的，其中的每个数也都可以点开。',
  'tour.edit':
    '现在把这个数改成 0：“happy”不再关注“not”。后面的一切都会重新计算，变了的地方都有标记。',
  'tour.turn': '回答从“sad”（难过）变成了“happy”（高兴）：原来全系于这一个数。',
  'tour.yours': '轮到你的句子了：在这里输入，按回车。其中的每个数都可以点开。',
};
