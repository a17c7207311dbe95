/** The strings of the start page; a saved page has none. */

import { learn } from '../lib/i18n';
import { startEn } from '../lib/i18n/start.en';
import { startZh } from '../lib/i18n/start.zh';

learn(startEn, startZh);
