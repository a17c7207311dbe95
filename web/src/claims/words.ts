/** The strings of this view, known as soon as it is loaded. */

import { learn } from '../lib/i18n';
import { claimsEn } from '../lib/i18n/claims.en';
import { claimsZh } from '../lib/i18n/claims.zh';

learn(claimsEn, claimsZh);
