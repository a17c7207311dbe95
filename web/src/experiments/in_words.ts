/** The strings of a number in words of the input; a saved page has none. */

import { learn } from '../lib/i18n';
import { wordsEn } from '../lib/i18n/words.en';
import { wordsZh } from '../lib/i18n/words.zh';

learn(wordsEn, wordsZh);
