import { type Html, html, trusted } from './render/html.ts'

// Shapes of 16 × 16, drawn with strokes of the text's colour.
const shapes = {
  mark: '<circle cx="4" cy="3.5" r="1.75"/><circle cx="4" cy="12.5" r="1.75"/><circle cx="12" cy="5.5" r="1.75"/><path d="M4 5.25v5.5M12 7.25c0 2.5-3 2.75-8 3.5"/>',
  branch:
    '<circle cx="4.5" cy="3.5" r="1.5"/><circle cx="4.5" cy="12.5" r="1.5"/><circle cx="11.5" cy="5" r="1.5"/><path d="M4.5 5v6M11.5 6.5c0 2.5-2.5 2.75-7 3.25"/>',
  tag: '<path d="M2.5 2.5h5l6 6-5 5-6-6z"/><circle cx="5.25" cy="5.25" r=".75"/>',
  commit: '<circle cx="8" cy="8" r="2.5"/><path d="M1.5 8h4M10.5 8h4"/>',
  folder:
    '<path d="M2 4.5c0-.8.4-1.25 1.2-1.25h2.7l1.6 1.75h5.3c.8 0 1.2.4 1.2 1.2v5.3c0 .8-.4 1.25-1.2 1.25H3.2c-.8 0-1.2-.4-1.2-1.25z"/>',
  file: '<path d="M4 2h5l3.5 3.5V13c0 .7-.3 1-1 1h-7.5c-.7 0-1-.3-1-1V3c0-.7.3-1 1-1z"/><path d="M9 2v3.5h3.5"/>',
  link: '<path d="M6.5 9.5l3-3M5 7L3.5 8.5a2.8 2.8 0 004 4L9 11M7 5l1.5-1.5a2.8 2.8 0 014 4L11 9"/>',
  module: '<path d="M8 1.8l5.5 3v6.4l-5.5 3-5.5-3V4.8z"/><path d="M2.5 4.8L8 8l5.5-3.2M8 8v6"/>',
  search: '<circle cx="7" cy="7" r="4.25"/><path d="M10.25 10.25L14 14"/>',
  history: '<circle cx="8" cy="8" r="6"/><path d="M8 4.5V8l2.5 1.5"/>',
  check: '<path d="M3 8.5l3.25 3.25L13 4.75"/>',
  cross: '<path d="M4 4l8 8M12 4l-8 8"/>',
  running: '<path d="M8 2a6 6 0 106 6"/>',
  waiting: '<circle cx="8" cy="8" r="5.5"/>',
  dash: '<path d="M3.5 8h9"/>',
  eye: '<path d="M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8z"/><circle cx="8" cy="8" r="2"/>',
  lock: '<rect x="3" y="7" width="10" height="7" rx="1.2"/><path d="M5 7V5a3 3 0 016 0v2"/>',
  shield: '<path d="M8 1.8l5 1.9v4c0 3-2 5.2-5 6.5-3-1.3-5-3.5-5-6.5v-4z"/>',
  person:
    '<circle cx="8" cy="5" r="2.75"/><path d="M2.75 14c.5-3 2.5-4.25 5.25-4.25S12.75 11 13.25 14"/>',
  database:
    '<ellipse cx="8" cy="3.75" rx="5" ry="1.9"/><path d="M3 3.75v8.5c0 1 2.2 1.9 5 1.9s5-.9 5-1.9v-8.5M3 8c0 1 2.2 1.9 5 1.9S13 9 13 8"/>',
  push: '<path d="M8 13.5V5M4.5 8L8 4.5 11.5 8M3 2h10"/>',
  undo: '<path d="M3 6.5h6.5a3.5 3.5 0 010 7H6M5.5 3.5l-3 3 3 3"/>',
  copy: '<rect x="5.5" y="5.5" width="8" height="8" rx="1.2"/><path d="M10.5 5.5V3.7c0-.8-.4-1.2-1.2-1.2H3.7c-.8 0-1.2.4-1.2 1.2v5.6c0 .8.4 1.2 1.2 1.2h1.8"/>',
  plus: '<path d="M8 3v10M3 8h10"/>',
  down: '<path d="M4 6l4 4 4-4"/>',
  right: '<path d="M6 4l4 4-4 4"/>',
  again: '<path d="M13.5 8a5.5 5.5 0 11-1.7-4M13.5 2v3h-3"/>',
  stop: '<rect x="4" y="4" width="8" height="8" rx="1"/>',
  webhook:
    '<circle cx="8" cy="4.5" r="2"/><circle cx="3.75" cy="11.5" r="2"/><circle cx="12.25" cy="11.5" r="2"/><path d="M7.2 6.3l-2.5 3.5M8.9 6.2l2.4 3.6M5.75 11.5h4.5"/>',
  download: '<path d="M8 2.5V11M4.5 7.5L8 11l3.5-3.5M3 13.5h10"/>',
  warning: '<path d="M8 2.2l6.3 11.3H1.7zM8 6.5v3.25M8 11.5v.3"/>',
  key: '<circle cx="5" cy="8" r="2.75"/><path d="M7.75 8H14v2.5M11.5 8v2"/>',
} as const

export type IconName = keyof typeof shapes

/** An icon beside a word that says the same: it is hidden from screen readers. */
export function icon(name: IconName, className = ''): Html {
  return html`<svg class="icon ${className}" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">${trusted(shapes[name])}</svg>`
}

/** A button that copies a text; by default that of the code beside it. */
export function copyButton(text?: string): Html {
  return html`<button type="button" class="copy needs-js"${text !== undefined && html` data-copy="${text}"`} aria-label="Copy">${icon('copy')}</button>`
}
