import type { wordsEn } from './words.en';

export const wordsZh: Record<keyof typeof wordsEn, string> = {
  'words.title': '按输入的词归因',
  'words.show': '这个数来自哪些词？',
  'words.hide': '收起',
  'words.showAnswer': '哪些词让它回答“{answer}”？',
  'words.showUndecided': '哪些词支持“{answer}”？',
  'words.hideAnswer': '收起“{answer}”的来历',
  'words.method': '方法',
  'words.leave one out': '逐词剔除',
  'words.gradient': '梯度 × 输入',
  'words.integrated': '积分梯度',
  'words.rollout': '注意力展开（rollout）',
  'words.logit': '，即“{answer}”的 logit',
  'words.list': '各词所占的份额，{name}',
  'words.source': '原文',
  'words.target': '目前为止的译文',
  'words.whole': '各份之和为 {sum}，而应为 {whole}。',
};
