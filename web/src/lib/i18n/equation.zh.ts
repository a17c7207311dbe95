import type { equationEn } from './equation.en';

export const equationZh: Record<keyof typeof equationEn, string> = {
  'equation.head': '注意力头',
  'equation.headLabel': '头 {head}',
  'equation.axis': '第 {axis} 轴',
  'equation.of': '共 {count} 个',
  'equation.previous': '上一个{axis}',
  'equation.next': '下一个{axis}',
  'equation.expanded':
    '模块在这里调用了一个融合算子。追踪按教科书的步骤把它展开；结果在舍入误差内一致。',
  'equation.unwritten': '{op} 只是预留内存：这些数是先前遗留的内容，写入之前没有意义。',
  'equation.opaque': '算子 {op} 还没有规则：只显示它的数值，不作解释。',
  'panel.widen': '占满整行',
  'panel.narrow': '放回原处',
  'role.parameter': '参数：学习得到',
  'role.input': '输入',
  'role.activation': '计算得到',
  'role.constant': '常量',
  'matrix.unwritten': '尚未写入：内存中的遗留内容',
  'matrix.rowMost': '该行最大值',
  'matrix.cell': '{name}，行 {row}，列 {column}，{value}',
  'matrix.zoom': '缩放',
  'matrix.in': '放大',
  'matrix.out': '缩小',
  'matrix.fit': '适应大小',
  'matrix.exact': '显示数值',
  'matrix.digits': '九位有效数字',
};
