/** The little of a page that the code outside components asks for. */
Object.assign(globalThis, { document: { documentElement: { dataset: { language: 'en' } } } });
