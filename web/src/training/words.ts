/** The strings of this view, known as soon as it is loaded. */

import { learn } from '../lib/i18n';
import { trainingEn } from '../lib/i18n/training.en';
import { trainingZh } from '../lib/i18n/training.zh';

learn(trainingEn, trainingZh);
