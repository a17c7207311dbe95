import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

/** Unit tests stand beside the code that they test; components are tested in Chromium by pytest. */
export default defineConfig({
  plugins: [svelte()],
  test: { include: ['src/**/*.test.ts'], setupFiles: ['vitest.setup.ts'] },
});
