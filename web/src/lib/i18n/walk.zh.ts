import type { walkEn } from './walk.en';

export const walkZh: Record<keyof typeof walkEn, string> = {
  'walk.lessons': '课程',
  'walk.intro':
    '按顺序学习的课程：逐步讲解的算例。其中每个数都是一次真实运行中的一个单元，点击即可看到它的算式。',
  'walk.exercises': '动手实现：练习里由你写出注意力、归一化与损失，代码会被运行并检查：',
  'walk.thisRun': '本次运行，逐步看',
  'walk.thisRunSummary': '{model}：“{text}”，从输入到答案，一次一个运算。',
  'walk.all': '全部课程',
  'walk.making': '正在计算这一课……',
  'walk.makingLong': '有些课要先训练一个小模型，需要等一会儿。',
  'walk.step': '第 {step} 步，共 {total} 步',
  'walk.steps': '步骤',
  'walk.before': '上一步',
  'walk.after': '下一步',
  'walk.keys': 'J 下一步，K 上一步',
  'walk.inTheText': '原文：',
  'walk.cell': '{row}，{column}：{value}。查看来历',
  'walk.explain': '解释 {name}',
  'walk.where': '其中',
  'walk.marked': '上面公式所算的数',
  'walk.firstNumber': '它的第一个数：',
};
