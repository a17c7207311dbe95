import './app.css';

import { mount } from 'svelte';

import App from './App.svelte';
import { rehearse } from './matrix/rehearsal';

const target = document.getElementById('page');
if (target === null) throw new Error('the page has no #page');
mount(App, { target });
rehearse();
