/** The strings of this view, known as soon as it is loaded. */

import { learn } from '../lib/i18n';
import { exportingEn } from '../lib/i18n/exporting.en';
import { exportingZh } from '../lib/i18n/exporting.zh';

learn(exportingEn, exportingZh);
