/**
 * The style sheets of pages, and the files of `assets/css` that each consists of. All begin with `base`: a page is shown
 * after one request for styles, and none of them has more than 6 kB to transfer.
 */
export const styleSheets = {
  base: [],
  home: ['home'],
  code: ['code', 'picker', 'highlight', 'prose', 'progress'],
  history: ['history', 'picker', 'refs', 'creation', 'fields', 'forms'],
  diff: ['history', 'diff', 'compare', 'creation', 'fields', 'highlight', 'annotations'],
  change: ['history', 'creation', 'fields', 'forms', 'prose', 'changes', 'threads'],
  review: ['diff', 'fields', 'highlight', 'annotations', 'prose', 'threads'],
  blame: ['blame', 'highlight'],
  search: ['diff', 'search', 'highlight'],
  runs: ['runs', 'annotations', 'prose', 'fields', 'forms'],
  events: ['events', 'fields', 'forms'],
  push: ['events', 'fields', 'forms', 'history'],
  forms: ['fields', 'forms', 'admin', 'add'],
  edit: ['fields', 'forms', 'edit'],
  settings: ['fields', 'forms', 'settings', 'add'],
  webhooks: ['fields', 'forms', 'webhooks'],
  docs: ['docs'],
} as const satisfies Record<string, readonly string[]>

/** The files of `assets/js` that pages with these styles have besides those of all pages. */
export const scripts: Partial<Record<StyleSheet, readonly string[]>> = {
  code: ['code', 'lines', 'import'],
  diff: ['diff'],
  review: ['diff'],
  blame: ['diff'],
  search: ['diff'],
  runs: ['lines', 'log'],
  docs: ['docs'],
}

export type StyleSheet = keyof typeof styleSheets

/** The fonts of the pages, and their files in the packages that the build copies them from. */
export const fontFiles: Readonly<Record<string, string>> = {
  'geist.woff2': '@fontsource-variable/geist/files/geist-latin-wght-normal.woff2',
  'jetbrains-mono.woff2':
    '@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2',
}
