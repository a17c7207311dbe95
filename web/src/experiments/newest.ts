/**
 * A question asked again and again while something moves: one request at a time, as fast as the
 * answers come. While one is on its way, only the newest wish waits; those in between are dropped.
 */
export class Newest<Wish, Answer> {
  private current: AbortController | null = null;
  private next: { wish: Wish } | null = null;

  constructor(
    private readonly ask: (wish: Wish, signal: AbortSignal) => Promise<Answer>,
    private readonly take: (answer: Answer, wish: Wish) => void,
    private readonly fail: (error: unknown) => void,
  ) {}

  want(wish: Wish): void {
    this.next = { wish };
    if (this.current === null) void this.go();
  }

  /** Cancel what is on its way, and want nothing more. */
  stop(): void {
    this.next = null;
    this.current?.abort();
    this.current = null;
  }

  private async go(): Promise<void> {
    while (this.next !== null) {
      const { wish } = this.next;
      const controller = new AbortController();
      [this.next, this.current] = [null, controller];
      try {
        const answer = await this.ask(wish, controller.signal);
        if (!controller.signal.aborted) this.take(answer, wish);
      } catch (error) {
        if (!controller.signal.aborted) this.fail(error);
      }
      if (this.current !== controller) return; // stopped, and perhaps begun anew
      this.current = null;
    }
  }
}
