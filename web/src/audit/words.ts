/** The strings of this view, known as soon as it is loaded. */

import { learn } from '../lib/i18n';
import { auditEn } from '../lib/i18n/audit.en';
import { auditZh } from '../lib/i18n/audit.zh';

learn(auditEn, auditZh);
