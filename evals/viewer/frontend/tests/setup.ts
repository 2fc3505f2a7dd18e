// Modules of the page look at the document when they are loaded; these tests need no more of it.
Object.assign(globalThis, { window: globalThis, document: { documentElement: { dataset: {} } } });
