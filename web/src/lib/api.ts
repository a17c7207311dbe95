/**
 * The types of requests and responses, shared by every `Source`.
 *
 * The types come from the server's own schema (`schema.d.ts`, made by `make web`).
 */

import type * as schema from './schema';

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
  /** 1 where the number is memory that nothing wrote to; null where there is none. */
  unwritten: Uint8Array | null;
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

/** A cell of a step; with `operand`, the index counts in that operand of the step. */
export interface CellPlace {
  step: number;
  index: number[];
}

/** What is asked about: a number by its index, or a step with the places of its leading axes. */
export interface MeaningPlace {
  step: number;
  index: number[] | null;
  lead: number[];
}

/** Which of the summands of a cell, and in which order. */
export interface TermRange {
  offset?: number;
  limit?: number;
  order?: 'size' | 'index';
}

export function toNumber(value: WireNumber): number {
  return typeof value === 'number' ? value : Number(value);
}

export function fromNumber(value: number): WireNumber {
  if (Number.isFinite(value)) return value;
  return Number.isNaN(value) ? 'NaN' : value > 0 ? 'Infinity' : '-Infinity';
}
