/** The source that asks a running explorer: one request per question, nothing kept. */

import type * as api from './api';
import type { Experiment, Experiments } from './experiments';
import { setting } from './setting.svelte';
import { Refused, traffic, type Source } from './source';

type Query = Record<string, string | number | null | undefined>;

/** Cells that may be asked about at once, whether anything wrote to them. */
const MOST_UNWRITTEN = 16_384;

export class ServerSource implements Source {
  readonly can = { edit: true, decode: true, export: true, experiment: true };
  readonly saved = null;

  private revive: (id: string) => Promise<string | null> = () => Promise.resolve(null);

  onDropped(handler: (id: string) => Promise<string | null>): void {
    this.revive = handler;
  }

  // --- models and traces ---

  models(signal?: AbortSignal): Promise<api.ModelInfo[]> {
    return this.get('models', {}, signal);
  }

  createTrace(request: api.TraceRequest, signal?: AbortSignal): Promise<api.TraceInfo> {
    return this.post('traces', request, signal);
  }

  trace(id: string, signal?: AbortSignal): Promise<api.TraceInfo> {
    return this.get(`traces/${part(id)}`, {}, signal);
  }

  edit(id: string, edits: api.EditInput[], signal?: AbortSignal): Promise<api.TraceInfo> {
    return this.post(`traces/${part(id)}/edits`, { edits }, signal);
  }

  changes(id: string, signal?: AbortSignal): Promise<api.Changes> {
    return this.get(`traces/${part(id)}/changes`, {}, signal);
  }

  thumbnails(id: string, steps: number[], signal?: AbortSignal): Promise<api.Thumbnail[]> {
    return this.get(`traces/${part(id)}/thumbnails`, { steps: steps.join(',') }, signal);
  }

  map(id: string, signal?: AbortSignal): Promise<api.MapInfo> {
    return this.get(`traces/${part(id)}/map`, {}, signal);
  }

  // --- a step ---

  equation(id: string, step: number, lead: number[], signal?: AbortSignal): Promise<api.Equation> {
    return this.get(`traces/${part(id)}/steps/${step}/equation`, leadQuery(lead), signal);
  }

  meaning(
    id: string,
    { step, index, lead }: api.MeaningPlace,
    language: api.Language,
    signal?: AbortSignal,
  ): Promise<api.MeaningInfo> {
    const search = { ...leadQuery(lead), index: index?.join(',') ?? null, language };
    return this.get(`traces/${part(id)}/steps/${step}/meaning`, search, signal);
  }

  async values(
    id: string,
    place: api.PanelPlace,
    window?: api.Window | null,
    signal?: AbortSignal,
  ): Promise<api.Values> {
    const answer = await this.window('values', id, place, window, signal);
    const [rows = 0, columns = 0] = shapeOf(answer);
    const bytes = await answer.arrayBuffer();
    const wide = answer.headers.get('X-Dtype') === 'float64';
    const data = wide ? new Float64Array(bytes) : new Float32Array(bytes);
    if (answer.headers.get('X-Unwritten') === null) return { rows, columns, data, unwritten: null };
    const [top, left] = [window?.rows[0] ?? 0, window?.columns[0] ?? 0];
    const unwritten = await this.unwritten(id, place, [top, left, rows, columns], signal);
    return { rows, columns, data, unwritten };
  }

  private window(
    what: 'values' | 'unwritten',
    id: string,
    place: api.PanelPlace,
    window?: api.Window | null,
    signal?: AbortSignal,
  ): Promise<Response> {
    const search = query({
      ...leadQuery(place.lead),
      operand: place.operand,
      rows: window ? window.rows.join(':') : null,
      columns: window ? window.columns.join(':') : null,
    });
    const address = `traces/${part(id)}/steps/${place.step}/${what}${search}`;
    return this.send(address, { signal: signal ?? null });
  }

  /** Which numbers of a window nothing wrote to, asked for in pieces as large as may be asked. */
  private async unwritten(
    id: string,
    place: api.PanelPlace,
    [top, left, rows, columns]: [number, number, number, number],
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    const found = new Uint8Array(rows * columns);
    const width = Math.min(columns, MOST_UNWRITTEN);
    const height = Math.floor(MOST_UNWRITTEN / width);
    for (let row = 0; row < rows; row += height) {
      for (let column = 0; column < columns; column += width) {
        const [bottom, right] = [Math.min(rows, row + height), Math.min(columns, column + width)];
        const window: api.Window = {
          rows: [top + row, top + bottom],
          columns: [left + column, left + right],
        };
        const answer = await this.window('unwritten', id, place, window, signal);
        const flags = new Uint8Array(await answer.arrayBuffer());
        const wide = right - column;
        for (let line = row; line < bottom; line++) {
          const from = (line - row) * wide;
          found.set(flags.subarray(from, from + wide), line * columns + column);
        }
      }
    }
    return found;
  }

  // --- a cell ---

  card(
    id: string,
    place: api.CellPlace,
    operand: number | null = null,
    signal?: AbortSignal,
  ): Promise<api.CardInfo> {
    return this.get(
      `traces/${part(id)}/cell`,
      { ...cellQuery(place), operand, language: setting.language },
      signal,
    );
  }

  terms(
    id: string,
    place: api.CellPlace,
    range: api.TermRange = {},
    signal?: AbortSignal,
  ): Promise<api.TermPage> {
    return this.get(
      `traces/${part(id)}/cell/terms`,
      { ...cellQuery(place), ...range, language: setting.language },
      signal,
    );
  }

  dependents(id: string, place: api.CellPlace, signal?: AbortSignal): Promise<api.DependentInfo[]> {
    return this.get(`traces/${part(id)}/cell/dependents`, cellQuery(place), signal);
  }

  path(id: string, place: api.CellPlace, signal?: AbortSignal): Promise<api.CellRef[]> {
    return this.get(`traces/${part(id)}/cell/path`, cellQuery(place), signal);
  }

  // --- files, decoding, lessons, training ---

  async exportTrace(
    id: string,
    request: api.ExportRequest,
    signal?: AbortSignal,
  ): Promise<{ name: string; file: Blob }> {
    const answer = await this.send(`traces/${part(id)}/export`, posted(request, signal));
    return { name: fileName(answer, request.format), file: await answer.blob() };
  }

  async savePlaylist(request: api.PlaylistRequest, signal?: AbortSignal): Promise<Blob> {
    return (await this.send('playlist', posted(request, signal))).blob();
  }

  decode(request: api.DecodeRequest, signal?: AbortSignal): Promise<api.DecodeAnswer> {
    return this.post('decode', request, signal);
  }

  experiment<K extends Experiment>(
    id: string,
    what: K,
    request: Experiments[K]['request'],
    signal?: AbortSignal,
  ): Promise<Experiments[K]['answer']> {
    // The answer of a model has no words of the page's; the rest is told in its language.
    const asked = what === 'answer' ? request : { ...request, language: setting.language };
    return this.post(`traces/${part(id)}/experiments/${what}`, asked, signal);
  }

  lessons(language: api.Language, signal?: AbortSignal): Promise<api.LessonSummary[]> {
    return this.get('lessons', { language }, signal);
  }

  lesson(
    name: string,
    language: api.Language,
    settings: readonly string[],
    signal?: AbortSignal,
  ): Promise<api.LessonInfo> {
    return this.get(`lessons/${part(name)}?language=${language}${turned(settings)}`, {}, signal);
  }

  async exportLesson(
    lesson: api.LessonInfo,
    format: string,
    settings: readonly string[],
  ): Promise<{ name: string; file: Blob }> {
    const search = `?format=${format}&language=${lesson.language}${turned(settings)}`;
    const answer = await this.send(`lessons/${part(lesson.name)}/export${search}`, {});
    return { name: fileName(answer, format), file: await answer.blob() };
  }

  answer(
    lesson: string,
    request: api.AnswerRequest,
    signal?: AbortSignal,
  ): Promise<api.AnswerInfo> {
    return this.post(`lessons/${part(lesson)}/answers`, request, signal);
  }

  claims(language: api.Language, signal?: AbortSignal): Promise<api.ClaimList> {
    return this.get('claims', { language }, signal);
  }

  claim(
    id: string,
    language: api.Language,
    settings: readonly string[],
    signal?: AbortSignal,
  ): Promise<api.ClaimInfo> {
    return this.get(`claims/${part(id)}?language=${language}${turned(settings)}`, {}, signal);
  }

  audits(language: api.Language, signal?: AbortSignal): Promise<api.AuditSummary[]> {
    return this.get('audits', { language }, signal);
  }

  audit(id: string, language: api.Language, signal?: AbortSignal): Promise<api.AuditInfo> {
    return this.get(`audits/${part(id)}`, { language }, signal);
  }

  async sendAudit(
    file: File,
    language: api.Language,
    signal?: AbortSignal,
  ): Promise<api.AuditInfo> {
    const answer = await this.send(`audits${query({ name: file.name, language })}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: file,
      signal: signal ?? null,
    });
    return (await answer.json()) as api.AuditInfo;
  }

  auditCell(
    id: string,
    step: string,
    index: number[],
    language: api.Language,
    signal?: AbortSignal,
  ): Promise<api.AuditCellCard> {
    const places = index.map((place) => `&index=${place}`).join('');
    const search = `step=${part(step)}&language=${language}${places}`;
    return this.get(`audits/${part(id)}/cell?${search}`, {}, signal);
  }

  async exportAudit(
    id: string,
    format: string,
    language: api.Language,
  ): Promise<{ name: string; file: Blob }> {
    const search = query({ format, language });
    const answer = await this.send(`audits/${part(id)}/export${search}`, {});
    return { name: fileName(answer, format), file: await answer.blob() };
  }

  watch(since: number, signal?: AbortSignal): Promise<api.WatchInfo | null> {
    return this.get('watch', { since }, signal);
  }

  watchRun(name: string, signal?: AbortSignal): Promise<api.RunCurves> {
    return this.get(`watch/runs/${part(name)}`, {}, signal);
  }

  watchTrace(update: number, signal?: AbortSignal): Promise<api.TraceInfo> {
    return this.post('watch/traces', { update }, signal);
  }

  async watchAttention(
    update: number,
    layer: number,
    signal?: AbortSignal,
  ): Promise<{ shape: number[]; data: Float32Array }> {
    const answer = await this.send(`watch/attention${query({ update, layer })}`, {
      signal: signal ?? null,
    });
    return { shape: shapeOf(answer), data: new Float32Array(await answer.arrayBuffer()) };
  }

  // --- requests ---

  private async get<T>(address: string, search: Query, signal?: AbortSignal): Promise<T> {
    const answer = await this.send(`${address}${query(search)}`, { signal: signal ?? null });
    return (await answer.json()) as T;
  }

  private async post<T>(address: string, body: unknown, signal?: AbortSignal): Promise<T> {
    return (await (await this.send(address, posted(body, signal))).json()) as T;
  }

  /** A refusal throws `Refused`; a trace that the server has dropped is made again first. */
  private async send(address: string, options: RequestInit): Promise<Response> {
    traffic.pending += 1;
    try {
      return await this.ask(address, options);
    } finally {
      traffic.pending -= 1;
    }
  }

  private async ask(address: string, options: RequestInit): Promise<Response> {
    let answer = await fetch(`api/${address}`, options);
    const dropped = answer.status === 410 ? /^traces\/([^/?]+)/.exec(address)?.[1] : undefined;
    if (dropped !== undefined) {
      const id = await this.revive(decodeURIComponent(dropped));
      if (id !== null) {
        answer = await fetch(`api/${address.replace(dropped, part(id))}`, options);
      }
    }
    if (!answer.ok) throw new Refused(answer.status, await problemOf(answer));
    return answer;
  }
}

export function query(values: Query): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined) search.set(key, String(value));
  }
  const text = search.toString();
  return text === '' ? '' : `?${text}`;
}

function part(id: string): string {
  return encodeURIComponent(id);
}

/** Switches, after the language. */
function turned(settings: readonly string[]): string {
  return settings.map((one) => `&set=${part(one)}`).join('');
}

function leadQuery(lead: number[]): Query {
  return { lead: lead.length > 0 ? lead.join(',') : null };
}

function cellQuery(place: api.CellPlace): Query {
  return { step: place.step, index: place.index.join(',') };
}

function posted(body: unknown, signal?: AbortSignal): RequestInit {
  return {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal: signal ?? null,
  };
}

function fileName(answer: Response, format: string): string {
  const named = /filename="([^"]+)"/.exec(answer.headers.get('Content-Disposition') ?? '');
  return named?.[1] ?? `glassformer.${format}`;
}

function shapeOf(answer: Response): number[] {
  return (answer.headers.get('X-Shape') ?? '').split(',').map(Number);
}

async function problemOf(answer: Response): Promise<api.Problem> {
  const told = {
    detail: `${answer.status} ${answer.statusText}`.trim(),
    zh: null,
    code: null,
    figures: {},
  };
  try {
    const problem = (await answer.json()) as Partial<api.Problem>;
    if (typeof problem.detail === 'string') return { ...told, ...problem };
  } catch {
    // no JSON: the status has to do
  }
  return told;
}
