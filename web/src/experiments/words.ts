/** The strings of this view, known as soon as it is loaded. */

import { learn } from '../lib/i18n';
import { experimentsEn } from '../lib/i18n/experiments.en';
import { experimentsZh } from '../lib/i18n/experiments.zh';

learn(experimentsEn, experimentsZh);
