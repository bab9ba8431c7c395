import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLinks } from '../links.ts'
import { html } from '../render/html.ts'
import type { DiffContext, ShownDiff } from './diff-context.ts'
import { diffView } from './diff-view.ts'

test('a diff ends when its HTML is long, and links to each file that is not shown', () => {
  const lines = Array.from({ length: 400 }, () => `+${'a\u0001'.repeat(30)}`)
  const files = Array.from({ length: 25 }, (_, index) => ({
    path: `file-${index}`,
    status: 'added',
    additions: lines.length,
    deletions: 0,
    limitsReached: [],
    newMode: '100644',
    oldMode: null,
    oldId: null,
    newId: 'x',
    isBinary: false,
    truncated: null,
    hunks: [{ oldStart: 0, oldLines: 0, newStart: 1, newLines: lines.length, section: '', lines }],
  }))
  // The parts that the view reads.
  const diff = {
    files,
    fileCount: files.length,
    additions: 1,
    deletions: 0,
    limitsReached: [],
  } as unknown as ShownDiff
  const context: DiffContext = {
    to: createLinks(''),
    name: 'site',
    before: null,
    after: 'main',
    isSplit: false,
    patches: html``,
    here: ({ file = '' }) => `?file=${file}`,
    highlights: new Map(),
    annotations: new Map(),
    isAlone: false,
  }
  const { text } = diffView(diff, context)
  assert.ok(text.length < 6 * 1024 * 1024, `${text.length}`)
  assert.match(text, /or of length\. <a href="\?file=file-24">Show this file/)
  assert.doesNotMatch(text, /<a href="\?file=file-0">Show this file/)
})
