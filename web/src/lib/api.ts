/**
 * The server's API, typed: one function per request, nothing kept.
 *
 * The types come from the server's own schema (`schema.d.ts`, made by `make web`); `asking.ts` knows
 * how requests are made. What has words in it is asked for in the page's language.
 */

import { getJson, part, postJson, query, send, type Query } from './asking';
import type * as schema from './schema';
import { setting } from './setting.svelte';

export { describe, onDropped, Refused } from './asking';

export type * from './schema';
export type { EditOutput as Edit } from './schema';

export type Language = 'en' | 'zh';
/** A number as JSON has it: three of them are words there. */
export type WireNumber = schema.CellRef['value'];
export type Role = schema.StepInfo['role'];

/** A block of numbers, row by row. */
export interface Values {
  rows: number;
  columns: number;
  data: Float32Array | Float64Array;
}

/** Which matrix of a step: the places of its leading axes, and which operand if not itself. */
export interface PanelPlace {
  step: number;
  lead: number[];
  operand?: number | null | undefined;
}

/** A window of a matrix; ends are not included. */
export interface Window {
  rows: [number, number];
  columns: [number, number];
}

export function toNumber(value: WireNumber): number {
  return typeof value === 'number' ? value : Number(value);
}

export function fromNumber(value: number): WireNumber {
  if (Number.isFinite(value)) return value;
  return Number.isNaN(value) ? 'NaN' : value > 0 ? 'Infinity' : '-Infinity';
}

// --- models and traces ---

export function models(signal?: AbortSignal): Promise<schema.ModelInfo[]> {
  return getJson('models', {}, signal);
}

export function createTrace(
  request: schema.TraceRequest,
  signal?: AbortSignal,
): Promise<schema.TraceInfo> {
  return postJson('traces', request, signal);
}

export function trace(id: string, signal?: AbortSignal): Promise<schema.TraceInfo> {
  return getJson(`traces/${part(id)}`, {}, signal);
}

export function edit(
  id: string,
  edits: schema.EditInput[],
  signal?: AbortSignal,
): Promise<schema.TraceInfo> {
  return postJson(`traces/${part(id)}/edits`, { edits }, signal);
}

export function changes(id: string, signal?: AbortSignal): Promise<schema.Changes> {
  return getJson(`traces/${part(id)}/changes`, {}, signal);
}

export function thumbnails(
  id: string,
  steps: number[],
  signal?: AbortSignal,
): Promise<schema.Thumbnail[]> {
  return getJson(`traces/${part(id)}/thumbnails`, { steps: steps.join(',') }, signal);
}

// --- a step ---

export function equation(
  id: string,
  step: number,
  lead: number[],
  signal?: AbortSignal,
): Promise<schema.Equation> {
  return getJson(`traces/${part(id)}/steps/${step}/equation`, leadQuery(lead), signal);
}

/** The numbers of a matrix, or of a window of it. */
export async function values(
  id: string,
  place: PanelPlace,
  window?: Window | null,
  signal?: AbortSignal,
): Promise<Values> {
  const answer = await panelBytes(id, 'values', place, window, signal);
  const [rows, columns] = shapeOf(answer);
  const bytes = await answer.arrayBuffer();
  const wide = answer.headers.get('X-Dtype') === 'float64';
  return { rows, columns, data: wide ? new Float64Array(bytes) : new Float32Array(bytes) };
}

/** Which numbers of a matrix differ from the trace before the edits: 1 where they do. */
export async function changed(
  id: string,
  place: PanelPlace,
  window?: Window | null,
  signal?: AbortSignal,
): Promise<{ rows: number; columns: number; data: Uint8Array }> {
  const answer = await panelBytes(id, 'changed', place, window, signal);
  const [rows, columns] = shapeOf(answer);
  return { rows, columns, data: new Uint8Array(await answer.arrayBuffer()) };
}

// --- a cell ---

/** A cell of a step; with `operand`, the index counts in that operand of the step. */
export interface CellPlace {
  step: number;
  index: number[];
}

export function card(
  id: string,
  place: CellPlace,
  operand: number | null = null,
  signal?: AbortSignal,
): Promise<schema.CardInfo> {
  return getJson(
    `traces/${part(id)}/cell`,
    { ...cellQuery(place), operand, language: setting.language },
    signal,
  );
}

export function terms(
  id: string,
  place: CellPlace,
  options: { offset?: number; limit?: number; order?: 'size' | 'index' } = {},
  signal?: AbortSignal,
): Promise<schema.TermPage> {
  return getJson(
    `traces/${part(id)}/cell/terms`,
    { ...cellQuery(place), ...options, language: setting.language },
    signal,
  );
}

export function dependents(
  id: string,
  place: CellPlace,
  signal?: AbortSignal,
): Promise<schema.DependentInfo[]> {
  return getJson(`traces/${part(id)}/cell/dependents`, cellQuery(place), signal);
}

/** The cell, its largest precedent, that one's, and so on to a parameter or an input. */
export function path(
  id: string,
  place: CellPlace,
  signal?: AbortSignal,
): Promise<schema.CellRef[]> {
  return getJson(`traces/${part(id)}/cell/path`, cellQuery(place), signal);
}

// --- files, decoding, lessons, training ---

/** A file of what is on the screen, with the name that the server gives it. */
export async function exportTrace(
  id: string,
  request: schema.ExportRequest,
  signal?: AbortSignal,
): Promise<{ name: string; file: Blob }> {
  const answer = await send(`traces/${part(id)}/export`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(request),
    signal: signal ?? null,
  });
  const named = /filename="([^"]+)"/.exec(answer.headers.get('Content-Disposition') ?? '');
  return { name: named?.[1] ?? `glassformer.${request.format}`, file: await answer.blob() };
}

export function decode(
  request: schema.DecodeRequest,
  signal?: AbortSignal,
): Promise<schema.DecodeAnswer> {
  return postJson('decode', request, signal);
}

export function lessons(language: Language, signal?: AbortSignal): Promise<schema.LessonSummary[]> {
  return getJson('lessons', { language }, signal);
}

export function lesson(
  name: string,
  language: Language,
  signal?: AbortSignal,
): Promise<schema.LessonInfo> {
  return getJson(`lessons/${part(name)}`, { language }, signal);
}

/** The training run that is watched, or null where none is. */
export function watch(since: number, signal?: AbortSignal): Promise<schema.WatchInfo | null> {
  return getJson('watch', { since }, signal);
}

/** The attention weights that one layer had after an update: heads × queries × keys. */
export async function watchAttention(
  update: number,
  layer: number,
  signal?: AbortSignal,
): Promise<{ shape: number[]; data: Float32Array }> {
  const answer = await send(`watch/attention${query({ update, layer })}`, {
    signal: signal ?? null,
  });
  const shape = (answer.headers.get('X-Shape') ?? '').split(',').map(Number);
  return { shape, data: new Float32Array(await answer.arrayBuffer()) };
}

// --- parts of addresses and answers ---

function leadQuery(lead: number[]): Query {
  return { lead: lead.length > 0 ? lead.join(',') : null };
}

function cellQuery(place: CellPlace): Query {
  return { step: place.step, index: place.index.join(',') };
}

function panelBytes(
  id: string,
  what: 'values' | 'changed',
  place: PanelPlace,
  window: Window | null | undefined,
  signal?: AbortSignal,
): Promise<Response> {
  const search = query({
    ...leadQuery(place.lead),
    operand: place.operand,
    rows: window ? window.rows.join(':') : null,
    columns: window ? window.columns.join(':') : null,
  });
  return send(`traces/${part(id)}/steps/${place.step}/${what}${search}`, {
    signal: signal ?? null,
  });
}

function shapeOf(answer: Response): [number, number] {
  const shape = (answer.headers.get('X-Shape') ?? '').split(',').map(Number);
  return [shape[0] ?? 0, shape[1] ?? 0];
}
