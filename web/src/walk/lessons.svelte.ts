/** The lessons of the catalogue and the one that is open, in the page's language. */

import { describe, source } from '../lib/source';
import type { Language, LessonInfo, LessonSummary } from '../lib/api';

class Lessons {
  all = $state.raw<LessonSummary[]>([]);
  current = $state.raw<LessonInfo | null>(null);
  problem = $state<string | null>(null);

  private listed: Language | null = null;
  private readonly made = new Map<string, LessonInfo>();
  /** The traces of lessons that were made again, by the ids of those before. */
  private readonly followers = new Map<string, string>();
  /** What is being made, so that a step taken meanwhile does not begin it anew. */
  private running: { key: string; controller: AbortController } | null = null;

  async list(language: Language): Promise<void> {
    if (this.listed === language) return;
    this.listed = language;
    this.problem = null;
    try {
      const all = await source.lessons(language);
      if (this.listed === language) this.all = all; // not the other language's, come late
    } catch (error) {
      if (this.listed !== language) return;
      this.listed = null;
      this.problem = describe(error);
    }
  }

  /** Open a lesson; the one before stays on the screen until it is there. */
  async open(name: string, language: Language, settings: readonly string[] = []): Promise<void> {
    const key = [language, name, ...settings].join('/');
    if (this.running?.key === key) return;
    this.running?.controller.abort();
    this.running = null;
    const known = this.made.get(key);
    if (known !== undefined) {
      this.current = known;
      this.problem = null;
      return;
    }
    if (this.current?.name !== name) this.current = null;
    const controller = new AbortController();
    const running = { key, controller };
    this.running = running;
    this.problem = null;
    try {
      const lesson = await source.lesson(name, language, settings, controller.signal);
      this.made.set(key, lesson);
      if (!controller.signal.aborted) this.current = lesson;
    } catch (error) {
      if (!controller.signal.aborted) this.problem = describe(error);
    } finally {
      if (this.running === running) this.running = null;
    }
  }

  /** The server has lost a lesson's trace: have the lesson made again; the trace that follows it. */
  async revive(id: string): Promise<string | null> {
    for (const [key, old] of this.made) {
      if (!tracesOf(old).includes(id)) continue;
      const lesson = await source.lesson(old.name, old.language, settingsOf(old));
      const traces = tracesOf(lesson);
      for (const [place, before] of tracesOf(old).entries()) {
        const after = traces[place];
        if (before && after) this.followers.set(before, after);
      }
      this.made.set(key, lesson);
      if (this.current === old) this.current = lesson;
      break;
    }
    return this.followers.get(id) ?? null;
  }
}

/** How the switches of a lesson stand. */
export function settingsOf({ choices }: LessonInfo): string[] {
  return choices.map(({ name, chosen }) => `${name}=${chosen}`);
}

/** The switches of a lesson with one of them turned. */
export function turned(lesson: Pick<LessonInfo, 'choices'>, name: string, value: string): string[] {
  return lesson.choices.map((choice) =>
    choice.name === name ? `${name}=${value}` : `${choice.name}=${choice.chosen}`,
  );
}

/** The trace of each part of a lesson, in order; null for a part without numbers. */
function tracesOf({ steps }: LessonInfo): (string | null)[] {
  return steps.flatMap(({ parts }) => parts.map(({ trace }) => trace ?? null));
}

export const lessons = new Lessons();
