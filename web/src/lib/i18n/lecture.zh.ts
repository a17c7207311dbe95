import type { lectureEn } from './lecture.en';

export const lectureZh: Record<keyof typeof lectureEn, string> = {
  'lecture.menu': '演示',
  'lecture.start': '讲课模式',
  'lecture.pin': '把当前画面加入播放列表',
  'lecture.playlist': '播放列表（{n}）……',
  'lecture.on': '已进入讲课模式。按 PageDown、PageUp 前后翻页，按 Esc 退出。',
  'lecture.off': '已退出讲课模式。',
  'lecture.pinned': '已加入：播放列表现有 {n} 个画面。',
  'lecture.key': '讲课模式：只留内容，字号放大',
  'lecture.keyStep': '讲课时：下一页、上一页，翻页笔也用这些键',
  'lecture.keyFull': '讲课时：全屏',
  'picture.save': '保存图片',
};
