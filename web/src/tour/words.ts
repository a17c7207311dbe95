/** The strings of the tour; a saved page has none. */

import { learn } from '../lib/i18n';
import { tourEn } from '../lib/i18n/tour.en';
import { tourZh } from '../lib/i18n/tour.zh';

learn(tourEn, tourZh);
