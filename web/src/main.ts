/** The page of a running explorer. */

import './app.css';

import { mount } from 'svelte';

import App from './App.svelte';
import { ServerSource } from './lib/server';
import { useSource } from './lib/source';

const target = document.getElementById('page');
if (target === null) throw new Error('the page has no #page');
useSource(new ServerSource());
mount(App, { target });
