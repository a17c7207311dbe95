/** The page saved as one file: its answers are inside it. */

import './app.css';

import { mount } from 'svelte';

import App from './App.svelte';
import { SavedPlaylist, type EmbeddedPlaylist } from './lib/saved_playlist';
import { useSource } from './lib/source';
import { StaticSource, type Embedded } from './lib/static';

const target = document.getElementById('page');
const text = document.getElementById('data')?.textContent;
if (target === null || !text) throw new Error('the page has no #page or no #data');
const data = JSON.parse(text) as Embedded | EmbeddedPlaylist;
const answers = 'playlist' in data ? new SavedPlaylist(data) : new StaticSource(data);
useSource(answers);
Object.assign(globalThis, { glassformer: answers }); // for scripts and for curious readers
mount(App, { target });
