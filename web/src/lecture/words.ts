/** The strings of this view, known as soon as it is loaded. */

import { learn } from '../lib/i18n';
import { playlistEn } from '../lib/i18n/playlist.en';
import { playlistZh } from '../lib/i18n/playlist.zh';

learn(playlistEn, playlistZh);
