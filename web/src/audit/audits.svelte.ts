/** The audit that is open: of a shipped example, or of a file from this computer. */

import type { AuditCellCard, AuditInfo, AuditSummary, Language } from '../lib/api';
import { t } from '../lib/i18n';
import { describe, Refused, source } from '../lib/source';
import type { Spot } from './places';

/** What stands for a name in links to a file, which only this page has. */
export const FILE = 'file';
/** The largest file that the audit reads. */
export const MOST_BYTES = 5_000_000;

class Audits {
  shipped = $state.raw<AuditSummary[]>([]);
  current = $state.raw<AuditInfo | null>(null);
  problem = $state<string | null>(null);
  isBusy = $state(false);
  /** The file that was chosen, kept to be sent again. */
  file = $state.raw<File | null>(null);

  private listed: Language | null = null;
  private opened = '';
  private running: AbortController | null = null;

  async list(language: Language): Promise<void> {
    if (this.listed === language) return;
    this.listed = language;
    try {
      const found = await source.audits(language);
      if (this.listed === language) this.shipped = found;
    } catch (error) {
      this.listed = null;
      this.problem = describe(error);
    }
  }

  /** Open an example by name, or the chosen file; false where there is no file. */
  async open(name: string, language: Language): Promise<boolean> {
    const file = name === FILE ? this.file : null;
    if (name === FILE && file === null) return false;
    const key = `${language}/${name}/${file === null ? '' : `${file.name}/${file.lastModified}`}`;
    if (this.opened === key) return true;
    this.opened = key;
    await this.ask((signal) =>
      file === null
        ? source.audit(name, language, signal)
        : source.sendAudit(file, language, signal),
    );
    if (this.current === null) this.opened = '';
    return true;
  }

  /** Take a file; false, with a line that says why, where it cannot be one. */
  choose(file: File): boolean {
    if (file.size > MOST_BYTES) {
      this.problem = t('audit.tooLarge', { name: file.name, most: MOST_BYTES / 1_000_000 });
      return false;
    }
    this.file = file;
    this.opened = '';
    this.problem = null;
    return true;
  }

  /** Everything about a number; a file that the server has dropped is sent again. */
  async cell(spot: Spot, language: Language, signal: AbortSignal): Promise<AuditCellCard | null> {
    if (this.current === null || spot.index === null) return null;
    const ask = (id: string) => source.auditCell(id, spot.step, spot.index ?? [], language, signal);
    try {
      return await ask(this.current.id);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 410 || this.file === null) throw error;
      this.current = await source.sendAudit(this.file, language, signal);
      return ask(this.current.id);
    }
  }

  cancel(): void {
    this.running?.abort();
    this.opened = '';
    this.isBusy = false;
  }

  private async ask(work: (signal: AbortSignal) => Promise<AuditInfo>): Promise<void> {
    this.running?.abort();
    const controller = new AbortController();
    this.running = controller;
    this.isBusy = true;
    this.problem = null;
    this.current = null;
    try {
      const made = await work(controller.signal);
      if (!controller.signal.aborted) this.current = made;
    } catch (error) {
      if (!controller.signal.aborted) this.problem = describe(error);
    }
    if (this.running === controller) this.isBusy = false;
  }
}

export const audits = new Audits();
