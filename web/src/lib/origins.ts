/**
 * What traces were made from, so that the page outlives them: the server drops old traces to make
 * room for newer ones, and a restarted server has none.
 */

import { plainEdit } from './edit_text';
import { source } from './source';
import type { EditInput, TraceInfo } from './api';

/** Enough to make a trace again. */
interface Origin {
  model: string;
  text: string;
  target: string | null;
  edits: EditInput[];
}

export class Origins {
  private readonly known = new Map<string, Origin>();
  private readonly revivals = new Map<string, Promise<string | null>>();

  constructor(
    /** Whether there is a model of this name that reads text. */
    private readonly canRun: (model: string) => boolean,
    /** The id of a trace that takes the place of one that no text makes: a lesson's. */
    private readonly findOther: (id: string) => Promise<string | null>,
  ) {}

  /** The target that a run was asked for; null where the model produced it. */
  targetOf(trace: TraceInfo): string | null {
    return this.known.get(trace.root)?.target ?? null;
  }

  /** Keep what a trace and those before it were made from. */
  remember(trace: TraceInfo): TraceInfo {
    const { model, text, edits } = trace;
    if (!this.canRun(model)) return trace; // a module, a lesson
    const origin = { model, text, target: this.targetOf(trace), edits };
    this.known.set(trace.id, origin);
    if (!this.known.has(trace.root)) this.known.set(trace.root, { ...origin, edits: [] });
    return trace;
  }

  /**
   * Run a model, then make the edits one by one, so that each can be undone.
   *
   * `onrefused` is told why an edit was refused, and the trace is then the one before that edit;
   * without it, a refused edit fails.
   */
  async make(
    origin: Origin,
    signal?: AbortSignal,
    onrefused?: (error: unknown) => void,
  ): Promise<TraceInfo> {
    const { model, text, target, edits } = origin;
    let trace = await source.createTrace({ model, text, target }, signal);
    this.known.set(trace.root, { ...origin, edits: [] });
    for (const edit of edits) {
      try {
        trace = this.remember(await source.edit(trace.id, [plainEdit(edit)], signal));
      } catch (error) {
        if (onrefused === undefined || signal?.aborted) throw error;
        onrefused(error);
        break;
      }
    }
    return trace;
  }

  /** Make a trace again that the server no longer has; null where nothing says how. */
  private async again(id: string): Promise<TraceInfo | null> {
    const origin = this.known.get(id);
    if (origin !== undefined) return this.make(origin);
    const other = await this.findOther(id);
    return other === null ? null : source.trace(other);
  }

  /** The id of the replacement for a dropped trace; concurrent requests share one revival. */
  revive(id: string, onrevived: (trace: TraceInfo) => void): Promise<string | null> {
    let revival = this.revivals.get(id);
    if (revival === undefined) {
      revival = this.again(id).then((trace) => {
        if (trace !== null) onrevived(trace);
        return trace?.id ?? null;
      });
      this.revivals.set(id, revival);
      const forget = () => this.revivals.delete(id);
      revival.then(forget, forget);
    }
    return revival;
  }
}
