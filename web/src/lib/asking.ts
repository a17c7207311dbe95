/**
 * How the server is asked: addresses, JSON, refusals, and what to do about a trace it has dropped.
 *
 * A request that the server refuses throws `Refused` with what the server said about it.
 */

import { refusal, t } from './i18n';
import type { Problem } from './schema';

/** The server's answer to a request that it does not fulfil. */
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

export type Query = Record<string, string | number | null | undefined>;

export function query(values: Query): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined) search.set(key, String(value));
  }
  const text = search.toString();
  return text === '' ? '' : `?${text}`;
}

export function part(id: string): string {
  return encodeURIComponent(id);
}

export async function getJson<T>(address: string, search: Query, signal?: AbortSignal): Promise<T> {
  const answer = await send(`${address}${query(search)}`, { signal: signal ?? null });
  return (await answer.json()) as T;
}

export async function postJson<T>(
  address: string,
  body: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const answer = await send(address, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });
  return (await answer.json()) as T;
}

export async function send(address: string, options: RequestInit): Promise<Response> {
  let answer = await fetch(`api/${address}`, options);
  const dropped = answer.status === 410 ? /^traces\/([^/?]+)/.exec(address)?.[1] : undefined;
  if (dropped !== undefined) {
    const id = await revive(decodeURIComponent(dropped));
    if (id !== null) {
      answer = await fetch(`api/${address.replace(dropped, part(id))}`, options);
    }
  }
  if (!answer.ok) throw new Refused(answer.status, await problemOf(answer));
  return answer;
}

let revive: (id: string) => Promise<string | null> = () => Promise.resolve(null);

/** What to do when the server has dropped a trace: answer the id of one that takes its place. */
export function onDropped(handler: (id: string) => Promise<string | null>): void {
  revive = handler;
}

async function problemOf(answer: Response): Promise<Problem> {
  const told = { detail: `${answer.status} ${answer.statusText}`.trim(), code: null, figures: {} };
  try {
    const problem = (await answer.json()) as Partial<Problem>;
    if (typeof problem.detail === 'string') return { ...told, ...problem };
  } catch {
    // no JSON: the status has to do
  }
  return told;
}
