/**
 * Where the page gets its answers. Components ask `source`; they do not know which one it is.
 *
 * `ServerSource` asks a running explorer. `StaticSource` answers from the data inside a page that
 * was saved as one file; it cannot compute yet, and says so in `can`. A source that replays the
 * run in the browser would be a third one, with more in `can`.
 */

import type { PinnedView } from '../lecture/playlist';
import type {
  AnswerInfo,
  AnswerRequest,
  AuditCellCard,
  AuditInfo,
  AuditSummary,
  CardInfo,
  CellPlace,
  CellRef,
  Changes,
  ClaimInfo,
  ClaimList,
  DecodeAnswer,
  DecodeRequest,
  DependentInfo,
  EditInput,
  Equation,
  ExportRequest,
  Language,
  LessonInfo,
  LessonSummary,
  MapInfo,
  MeaningInfo,
  MeaningPlace,
  ModelInfo,
  PanelPlace,
  PlaylistRequest,
  Problem,
  RunCurves,
  TermPage,
  TermRange,
  Thumbnail,
  TraceInfo,
  TraceRequest,
  Values,
  WatchInfo,
  Window,
} from './api';
import type { Experiment, Experiments } from './experiments';
import { refusal, t } from './i18n';

/** What a source is able to do beyond showing what was recorded. */
export interface Capabilities {
  /** Set a number and recompute everything downstream; show the run before the edits. */
  edit: boolean;
  /** Search for a translation or a continuation. */
  decode: boolean;
  /** Write files of what is on the screen. */
  export: boolean;
  /** Ask what a number depends on: sweeps, shares of words, comparisons. */
  experiment: boolean;
}

/** What a saved page holds, and what was left out of it to keep the file small. */
export interface Saved {
  /** The id of its trace. */
  trace: string;
  title: string | null;
  /** The views of a saved playlist, in order. */
  playlist?: readonly PinnedView[];
  left: {
    /** Steps that were not asked for. */
    steps: number;
    /** The names of steps without numbers, and how many numbers that are. */
    values: string[];
    numbers: number;
    /** Numbers without a card, and of how many steps. */
    cells: number;
    cell_steps: number;
  };
}

export interface Source {
  readonly can: Capabilities;
  /** What the page was saved with; null where a server answers. */
  readonly saved: Saved | null;

  models(signal?: AbortSignal): Promise<ModelInfo[]>;
  createTrace(request: TraceRequest, signal?: AbortSignal): Promise<TraceInfo>;
  trace(id: string, signal?: AbortSignal): Promise<TraceInfo>;
  edit(id: string, edits: EditInput[], signal?: AbortSignal): Promise<TraceInfo>;
  changes(id: string, signal?: AbortSignal): Promise<Changes>;
  thumbnails(id: string, steps: number[], signal?: AbortSignal): Promise<Thumbnail[]>;
  /** The model as one picture. */
  map(id: string, signal?: AbortSignal): Promise<MapInfo>;
  /** What to do when a trace is gone: answer the id of one that takes its place, or null. */
  onDropped(handler: (id: string) => Promise<string | null>): void;

  equation(id: string, step: number, lead: number[], signal?: AbortSignal): Promise<Equation>;
  /** What a step or a number is for, in a language. */
  meaning(
    id: string,
    place: MeaningPlace,
    language: Language,
    signal?: AbortSignal,
  ): Promise<MeaningInfo>;
  /** The numbers of a matrix, or of a window of it. */
  values(
    id: string,
    place: PanelPlace,
    window?: Window | null,
    signal?: AbortSignal,
  ): Promise<Values>;

  /** Everything about a number, its words in the page's language. */
  card(
    id: string,
    place: CellPlace,
    operand?: number | null,
    signal?: AbortSignal,
  ): Promise<CardInfo>;
  /** Some of the summands of a number that is a sum. */
  terms(id: string, place: CellPlace, range?: TermRange, signal?: AbortSignal): Promise<TermPage>;
  dependents(id: string, place: CellPlace, signal?: AbortSignal): Promise<DependentInfo[]>;
  /** The cell, its largest precedent, that one's, and so on to a parameter or an input. */
  path(id: string, place: CellPlace, signal?: AbortSignal): Promise<CellRef[]>;

  /** A file of what is on the screen, with its name. */
  exportTrace(
    id: string,
    request: ExportRequest,
    signal?: AbortSignal,
  ): Promise<{ name: string; file: Blob }>;
  /** A playlist as a page in one file. */
  savePlaylist(request: PlaylistRequest, signal?: AbortSignal): Promise<Blob>;
  decode(request: DecodeRequest, signal?: AbortSignal): Promise<DecodeAnswer>;
  /** Ask an experiment of a trace. */
  experiment<K extends Experiment>(
    id: string,
    what: K,
    request: Experiments[K]['request'],
    signal?: AbortSignal,
  ): Promise<Experiments[K]['answer']>;
  lessons(language: Language, signal?: AbortSignal): Promise<LessonSummary[]>;
  /** A lesson; `settings` are its switches, `encoding=rotary`. */
  lesson(
    name: string,
    language: Language,
    settings: readonly string[],
    signal?: AbortSignal,
  ): Promise<LessonInfo>;
  /** The lesson to hand out: slides, a worksheet, a document. */
  exportLesson(
    lesson: LessonInfo,
    format: string,
    settings: readonly string[],
  ): Promise<{ name: string; file: Blob }>;
  /** Whether an answer to a question of a lesson is right, and what went wrong. */
  answer(lesson: string, request: AnswerRequest, signal?: AbortSignal): Promise<AnswerInfo>;
  claims(language: Language, signal?: AbortSignal): Promise<ClaimList>;
  /** A claim, measured by the server; `settings` are its switches, `width=256`. */
  claim(
    id: string,
    language: Language,
    settings: readonly string[],
    signal?: AbortSignal,
  ): Promise<ClaimInfo>;
  /** The shipped examples that can be audited. */
  audits(language: Language, signal?: AbortSignal): Promise<AuditSummary[]>;
  audit(id: string, language: Language, signal?: AbortSignal): Promise<AuditInfo>;
  /** Audit a file of this computer. */
  sendAudit(file: File, language: Language, signal?: AbortSignal): Promise<AuditInfo>;
  /** Everything about one printed number. */
  auditCell(
    id: string,
    step: string,
    index: number[],
    language: Language,
    signal?: AbortSignal,
  ): Promise<AuditCellCard>;
  exportAudit(
    id: string,
    format: string,
    language: Language,
  ): Promise<{ name: string; file: Blob }>;
  /** The training run that is watched, or null where none is. */
  watch(since: number, signal?: AbortSignal): Promise<WatchInfo | null>;
  /** The metrics of another run in the folder of the watched one. */
  watchRun(name: string, signal?: AbortSignal): Promise<RunCurves>;
  /** Trace the model that the watched run had after an update, over the text of its pictures. */
  watchTrace(update: number, signal?: AbortSignal): Promise<TraceInfo>;
  /** The attention weights that one layer had after an update: heads × queries × keys. */
  watchAttention(
    update: number,
    layer: number,
    signal?: AbortSignal,
  ): Promise<{ shape: number[]; data: Float32Array }>;
}

/** How many answers the page waits for. */
export const traffic = { pending: 0 };

/** The source of this page; set once, before anything is shown. */
export let source: Source;

export function useSource(chosen: Source): void {
  source = chosen;
}

/** A request that the source does not fulfil, and why. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.detail);
  }
}

/** One line that says what went wrong, in the page's language where it knows how. */
export function describe(error: unknown): string {
  if (error instanceof Refused) return refusal(error.problem);
  if (error instanceof TypeError) return t('page.unreachable');
  return error instanceof Error ? error.message : String(error);
}
