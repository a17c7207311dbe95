import type { Problem } from '../schema';

/** The usual refusals of the server, where the page says it better than its own line. */
export const problemsZh: Partial<Record<NonNullable<Problem['code']>, string>> = {
  too_long: '文本有 {tokens} 个词元，该模型最多读取 {most} 个：请缩短文本。',
  too_many_characters: '文本有 {characters} 个字符，最多 {most} 个：请缩短文本。',
  empty: '文本中没有该模型能读取的内容：至少需要一个词元。',
  dropped: '这次运行已经关闭：请重新运行文本。',
  busy: '等待中的任务太多：请稍后再试。',
  fault: '服务器未能完成这一请求；原因见其日志。',
};
