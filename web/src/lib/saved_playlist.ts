/** The source of a saved playlist: several traces, the lessons and the searches of its views. */

import type * as api from './api';
import type { PinnedView } from '../lecture/playlist';
import type { Saved, Source } from './source';
import { leftOut, StaticSource, type Embedded } from './static';

export interface EmbeddedPlaylist {
  title: string | null;
  playlist: PinnedView[];
  traces: Embedded[];
  lessons: ({ name: string; settings: string[] } & Record<api.Language, api.LessonInfo>)[];
  searches: { request: api.DecodeRequest; answer: api.DecodeAnswer }[];
}

export class SavedPlaylist implements Source {
  readonly can = { edit: false, decode: false, export: false, experiment: false };
  readonly saved: Saved;
  private readonly sources: Map<string, StaticSource>;

  constructor(private readonly data: EmbeddedPlaylist) {
    const { title, playlist, traces } = data;
    this.sources = new Map(
      traces.map((trace, at) => [`saved-${at}`, new StaticSource(trace, `saved-${at}`)]),
    );
    this.saved = { trace: 'saved-0', title, playlist, left: together(traces) };
  }

  onDropped(): void {
    // what is in the file stays there
  }

  models(): Promise<api.ModelInfo[]> {
    return Promise.resolve([]);
  }

  // --- traces ---

  trace(id: string): Promise<api.TraceInfo> {
    return this.of(id, (source) => source.trace(id));
  }

  changes(id: string): Promise<api.Changes> {
    return this.of(id, (source) => source.changes());
  }

  thumbnails(id: string, steps: number[]): Promise<api.Thumbnail[]> {
    return this.of(id, (source) => source.thumbnails(id, steps));
  }

  map(id: string): Promise<api.MapInfo> {
    return this.of(id, (source) => source.map());
  }

  equation(id: string, step: number, lead: number[]): Promise<api.Equation> {
    return this.of(id, (source) => source.equation(id, step, lead));
  }

  meaning(id: string, place: api.MeaningPlace, language: api.Language): Promise<api.MeaningInfo> {
    return this.of(id, (source) => source.meaning(id, place, language));
  }

  values(id: string, place: api.PanelPlace, window?: api.Window | null): Promise<api.Values> {
    return this.of(id, (source) => source.values(id, place, window));
  }

  card(id: string, place: api.CellPlace, operand?: number | null): Promise<api.CardInfo> {
    return this.of(id, (source) => source.card(id, place, operand));
  }

  terms(id: string, place: api.CellPlace, range?: api.TermRange): Promise<api.TermPage> {
    return this.of(id, (source) => source.terms(id, place, range));
  }

  dependents(id: string, place: api.CellPlace): Promise<api.DependentInfo[]> {
    return this.of(id, (source) => source.dependents(id, place));
  }

  path(id: string, place: api.CellPlace): Promise<api.CellRef[]> {
    return this.of(id, (source) => source.path(id, place));
  }

  // --- lessons and searches ---

  lessons(): Promise<api.LessonSummary[]> {
    return Promise.resolve([]);
  }

  lesson(
    name: string,
    language: api.Language,
    settings: readonly string[],
  ): Promise<api.LessonInfo> {
    const found = this.data.lessons.find(
      (one) => one.name === name && String(one.settings) === String(settings),
    );
    return found === undefined ? refuse() : Promise.resolve(found[language]);
  }

  decode(request: api.DecodeRequest): Promise<api.DecodeAnswer> {
    const found = this.data.searches.find(({ request: kept }) =>
      Object.entries(request).every(([key, value]) => kept[key as keyof typeof kept] === value),
    );
    return found === undefined ? refuse() : Promise.resolve(found.answer);
  }

  watch(): Promise<null> {
    return Promise.resolve(null);
  }

  // --- what a file cannot do ---

  readonly createTrace = refuse;
  readonly edit = refuse;
  readonly exportTrace = refuse;
  readonly savePlaylist = refuse;
  readonly experiment = refuse;
  readonly answer = refuse;
  readonly watchAttention = refuse;
  readonly watchRun = refuse;
  readonly watchTrace = refuse;
  readonly claims = refuse;
  readonly claim = refuse;
  readonly audits = refuse;
  readonly audit = refuse;
  readonly sendAudit = refuse;
  readonly auditCell = refuse;
  readonly exportLesson = refuse;
  readonly exportAudit = refuse;

  private of<T>(id: string, ask: (source: StaticSource) => Promise<T>): Promise<T> {
    const found = this.sources.get(id);
    return found === undefined ? Promise.reject(leftOut('saved.noTrace')) : ask(found);
  }
}

function refuse(): Promise<never> {
  return Promise.reject(leftOut('saved.readOnly'));
}

/** What was left out of all of the traces. */
function together(traces: readonly Embedded[]): Saved['left'] {
  const none = { steps: 0, values: [] as string[], numbers: 0, cells: 0, cell_steps: 0 };
  return traces.reduce(
    (sum, { left }) => ({
      steps: sum.steps + left.steps,
      values: [...sum.values, ...left.values],
      numbers: sum.numbers + left.numbers,
      cells: sum.cells + left.cells,
      cell_steps: sum.cell_steps + left.cell_steps,
    }),
    none,
  );
}
