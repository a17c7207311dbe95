/** The lessons of the catalogue and the one that is open, in the page's language. */

import * as api from '../lib/api';
import type { Language, LessonInfo, LessonSummary } from '../lib/api';

/** What stands for a lesson's name in the walk over the open trace itself. */
export const RUN = 'run';

class Lessons {
  all = $state.raw<LessonSummary[]>([]);
  current = $state.raw<LessonInfo | null>(null);
  busy = $state(false);
  problem = $state<string | null>(null);

  private listed: Language | null = null;
  private made = new Map<string, LessonInfo>();
  private running: AbortController | null = null;

  async list(language: Language): Promise<void> {
    if (this.listed === language) return;
    this.listed = language;
    await this.attempt(async (signal) => {
      this.all = await api.lessons(language, signal);
    });
    if (this.problem !== null) this.listed = null;
  }

  /** Open a lesson; the one before stays on the screen until it is there. */
  async open(name: string, language: Language): Promise<void> {
    this.running?.abort();
    const key = `${language}/${name}`;
    const known = this.made.get(key);
    if (known !== undefined) {
      this.current = known;
      this.problem = null;
      return;
    }
    if (this.current?.name !== name) this.current = null;
    const controller = new AbortController();
    this.running = controller;
    await this.attempt(async () => {
      const lesson = await api.lesson(name, language, controller.signal);
      this.made.set(key, lesson);
      if (!controller.signal.aborted) this.current = lesson;
    }, controller);
  }

  private async attempt(
    work: (signal: AbortSignal) => Promise<void>,
    controller = new AbortController(),
  ): Promise<void> {
    this.busy = true;
    this.problem = null;
    try {
      await work(controller.signal);
    } catch (error) {
      if (!controller.signal.aborted) this.problem = api.describe(error);
    } finally {
      this.busy = this.running !== null && this.running !== controller;
    }
  }

  /** A lesson's traces may be gone from the server, dropped for newer ones: make it anew. */
  forget(name: string, language: Language): void {
    this.made.delete(`${language}/${name}`);
  }
}

export const lessons = new Lessons();
