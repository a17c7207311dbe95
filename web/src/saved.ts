/** The page saved as one file: its answers are inside it. */

import './app.css';

import { mount } from 'svelte';

import App from './App.svelte';
import { useSource } from './lib/source';
import { StaticSource, type Embedded } from './lib/static';

const target = document.getElementById('page');
const data = document.getElementById('data')?.textContent;
if (target === null || !data) throw new Error('the page has no #page or no #data');
const answers = new StaticSource(JSON.parse(data) as Embedded);
useSource(answers);
Object.assign(globalThis, { glassformer: answers }); // for scripts and for curious readers
mount(App, { target });
