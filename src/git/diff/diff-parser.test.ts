import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { exhaustive } from '../../../test/support/exhaustive.ts'
import { gitCommands } from '../process/commands.ts'
import { createDiffParser } from './diff-parser.ts'
import type { DiffFile, DiffLimits, ParsedDiff } from './parsed-diff.ts'

const unlimited: DiffLimits = {
  maxFiles: 1e6,
  maxPathBytes: 1e9,
  maxLinesPerFile: 1e6,
  maxBytesPerFile: 1e9,
  maxLineBytes: 1e6,
  maxBytes: 1e9,
  maxScanBytes: 1e9,
}

const folder = mkdtempSync(join(tmpdir(), 'svc-test-'))
const directory = join(folder, 'site.git')
execFileSync('git', gitCommands.init(directory))
after(() => rmSync(folder, { recursive: true }))

const run = (args: readonly string[], input: string | Buffer = '') =>
  execFileSync('git', args, { input, maxBuffer: 1e9, stdio: ['pipe', 'pipe', 'pipe'] })
const inRepository = (...args: string[]) => [`--git-dir=${directory}`, ...args]

/** A tree: the mode and content of files by path. Paths and contents are bytes (latin1). */
type Files = Record<string, { mode: string; content: string }>

const submodule = '160000'

/** Stores a tree, with git-fast-import(1). */
let trees = 0
function store(files: Files): string {
  trees += 1
  const lines = [`commit refs/heads/t${trees}\ncommitter A <a@x> 0 +0000\ndata 0\n`]
  for (const [path, { mode, content }] of Object.entries(files)) {
    const quoted = `"${path.replace(/[^ !#-[\]-~]/g, (one) => `\\${one.charCodeAt(0).toString(8).padStart(3, '0')}`)}"`
    if (mode === submodule) lines.push(`M ${mode} ${content} ${quoted}\n`)
    else lines.push(`M ${mode} inline ${quoted}\ndata ${content.length}\n${content}\n`)
  }
  run(inRepository('fast-import', '--quiet'), Buffer.from(lines.join(''), 'latin1'))
  return `refs/heads/t${trees}`
}

function parse(output: Buffer, limits: Partial<DiffLimits> = {}, sizes: number[] = []): ParsedDiff {
  const parser = createDiffParser({ ...unlimited, ...limits })
  let at = 0
  for (let index = 0; at < output.length; index++) {
    const size = sizes.length === 0 ? output.length : (sizes[index % sizes.length] ?? 1)
    if (!parser.push(output.subarray(at, at + size))) break
    at += size
  }
  return parser.end()
}

const nameParts = fc.constantFrom(
  'a',
  'b',
  'src',
  ' b',
  'a "quoted" name',
  'tab\tname',
  'line\nfeed',
  ':colon',
  'diff --git a',
  '\\back',
  '*',
  '-p',
  '\xff\xfe',
  '\xc3\xa9',
  '\x01\x7f',
)
const paths = fc.array(nameParts, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'))

const lineTexts = fc.constantFrom(
  '',
  'one',
  'two',
  'diff --git a/a b/a',
  '@@ -1,2 +1,2 @@',
  '--- a/a',
  '+++ b/a',
  '\\ No newline at end of file',
  'cr\r',
  '\xe9 latin1',
  '\xc3\xa9 utf-8',
  'function f() {',
  '\x1b[31m',
)
const contents = fc.oneof(
  { weight: 6, arbitrary: fc.array(lineTexts, { maxLength: 30 }).map((lines) => lines.join('\n')) },
  { weight: 1, arbitrary: fc.constant('bin\0ary') },
  { weight: 1, arbitrary: fc.constant('bin\0ary more') },
)
const regular = fc.record({ mode: fc.constantFrom('100644', '100755'), content: contents })
const link = fc.record({ mode: fc.constant('120000'), content: fc.constantFrom('a', 'b/c', 'é') })
const commitId = fc.record({
  mode: fc.constant(submodule),
  content: fc.constantFrom('1'.repeat(40), '2'.repeat(40)),
})
const entries = fc.oneof(
  { weight: 8, arbitrary: regular },
  { weight: 1, arbitrary: link },
  { weight: 1, arbitrary: commitId },
)

/** Drops files below a path that is itself a file. */
function withoutConflicts(files: Files): Files {
  const names = Object.keys(files)
  return Object.fromEntries(
    Object.entries(files).filter(([path]) => !names.some((other) => path.startsWith(`${other}/`))),
  )
}

/** Two trees of which the second is the first with changes. */
const pairs = fc
  .record({
    before: fc.dictionary(paths, entries, { maxKeys: 8 }),
    changed: fc.dictionary(paths, entries, { maxKeys: 5 }),
    moves: fc.array(paths, { maxLength: 3 }),
    seed: fc.nat(),
  })
  .map(({ before, changed, moves, seed }) => {
    const old = withoutConflicts(before)
    const next: Files = { ...old, ...changed }
    const names = Object.keys(old)
    for (const [index, to] of moves.entries()) {
      const from = names[(seed + index) % Math.max(1, names.length)]
      const file = from === undefined ? undefined : next[from]
      if (!file || from === undefined) continue
      delete next[from]
      const isText = file.mode.startsWith('100')
      next[to] = isText ? { ...file, content: `${file.content}\nmoved` } : file
    }
    return { old, next: withoutConflicts(next) }
  })

function diffOf(old: string, next: string): Buffer {
  return run(gitCommands.diffTrees(directory, old, next))
}

/** The content after the change, by the hunks of a diff. */
function apply(content: string, { hunks }: Pick<DiffFile, 'hunks'>): string {
  const source = content.split(/(?<=\n)/).filter((line) => line !== '')
  const result: string[] = []
  let at = 0
  for (const { oldStart, oldLines, lines, rawLines } of hunks) {
    const start = oldLines === 0 ? oldStart : oldStart - 1
    result.push(...source.slice(at, start))
    // A change of the type adds the new file after all of the old one is deleted.
    at = Math.max(at, start)
    const texts = lines.map((line, index) => {
      const raw = rawLines.find((one) => one.index === index)
      return (raw ? raw.bytes : Buffer.from(line)).toString('latin1')
    })
    for (const [index, text] of texts.entries()) {
      if (text.startsWith('\\')) continue
      const ends = texts[index + 1]?.startsWith('\\') ? '' : '\n'
      const whole = `${text.slice(1)}${ends}`
      if (text.startsWith('+')) result.push(whole)
      else {
        assert.equal(source[at], whole)
        if (text.startsWith(' ')) result.push(whole)
        at += 1
      }
    }
  }
  return [...result, ...source.slice(at)].join('')
}

const textOf = ({ mode, content }: Files[string]) =>
  mode === submodule ? `Subproject commit ${content}\n` : content

function assertApplies(file: DiffFile, old: Files, next: Files): void {
  const before = old[file.oldPath ?? file.path]
  const changed = next[file.path]
  assert.equal(file.oldMode, before?.mode ?? '000000')
  assert.equal(file.newMode, changed?.mode ?? '000000')
  const isBinary = [before, changed].some((one) => one?.content.includes('\0'))
  if (isBinary) {
    // Of equal binary files only the path or the mode changes.
    if (file.oldId !== file.newId) assert.ok(file.isBinary)
    return
  }
  if (file.oldId === file.newId && file.status !== 'type-changed') assert.deepEqual(file.hunks, [])
  assert.equal(apply(before ? textOf(before) : '', file), changed ? textOf(changed) : '')
}

function assertCounts(diff: ParsedDiff, old: string, next: string): void {
  const args = inRepository('diff-tree', '-r', '-z', '-M', '-l500', '--numstat', old, next)
  // With a rename, the counts are followed by an empty field and two paths.
  const fields = run(args).toString('latin1').split('\0').slice(0, -1)
  for (const file of diff.files) {
    const [, added = '', deleted = '', path] = (fields.shift() ?? '').split(/^([^\t]*)\t([^\t]*)\t/)
    if (path === '') assert.deepEqual(fields.splice(0, 2), [file.oldPath, file.path])
    else assert.equal(path, file.path)
    // There, a change of the type is one patch.
    if (file.status === 'type-changed') continue
    const isText = added !== '-'
    assert.equal(file.isBinary, !isText && file.oldId !== file.newId, file.path)
    const counts = isText ? [Number(added), Number(deleted)] : [0, 0]
    assert.deepEqual([file.additions, file.deletions], counts, file.path)
  }
  assert.deepEqual(fields, [])
}

function assertRows(diff: ParsedDiff, old: string, next: string): void {
  const output = run(
    inRepository('diff-tree', '-r', '-z', '-M', '-l500', '--raw', '--no-abbrev', old, next),
  ).toString('latin1')
  const letters = { added: 'A', deleted: 'D', modified: 'M', renamed: 'R', copied: 'C' } as const
  const rows = diff.files.map((file) => {
    const { status, similarity } = file
    const letter = status === 'type-changed' ? 'T' : letters[status as keyof typeof letters]
    const score = similarity === undefined ? '' : String(similarity).padStart(3, '0')
    const names = [...(file.oldPath === undefined ? [] : [file.oldPath]), file.path]
    const { oldMode, newMode, oldId, newId } = file
    return `:${oldMode} ${newMode} ${oldId} ${newId} ${letter}${score}\0${names.join('\0')}\0`
  })
  assert.equal(rows.join(''), output)
}

const runs = { numRuns: 40 }

test('applying a parsed diff gives the new files, with the rows and counts of git', () => {
  fc.assert(
    fc.property(pairs, ({ old, next }) => {
      const [before, later] = [store(old), store(next)]
      const diff = parse(diffOf(before, later))
      assertRows(diff, before, later)
      assertCounts(diff, before, later)
      for (const file of diff.files) assertApplies(file, old, next)
      assert.deepEqual([diff.fileCount, diff.limitsReached], [diff.files.length, []])
      const sum = (counts: (number | undefined)[]) =>
        counts.reduce((all = 0, one = 0) => all + one, 0)
      assert.equal(diff.additions, sum(diff.files.map(({ additions }) => additions)))
      assert.equal(diff.deletions, sum(diff.files.map(({ deletions }) => deletions)))
    }),
    runs,
  )
})

const someLimits = fc.record(
  {
    maxFiles: fc.nat(6),
    maxPathBytes: fc.nat(60),
    maxLinesPerFile: fc.nat(10),
    maxBytesPerFile: fc.nat(400),
    maxLineBytes: fc.integer({ min: 1, max: 12 }),
    maxBytes: fc.nat(1000),
  },
  { requiredKeys: [] },
)

test(
  'the result does not depend on how the output is divided, also with limits',
  exhaustive,
  () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 })
    fc.assert(
      fc.property(pairs, sizes, someLimits, ({ old, next }, parts, limits) => {
        const output = diffOf(store(old), store(next))
        const whole = parse(output, limits)
        assert.deepEqual(parse(output, limits, parts), whole)
        assert.deepEqual(parse(output, limits, [1]), whole)
        // Limits leave out lines and files, and change no count.
        const all = parse(output)
        const { fileCount, additions, deletions } = all
        assert.deepEqual(
          [whole.fileCount, whole.additions, whole.deletions],
          [fileCount, additions, deletions],
        )
        for (const [index, file] of whole.files.entries()) {
          const { hunks, truncated, ...rest } = file
          const { hunks: allHunks, truncated: _, ...same } = all.files[index] ?? assert.fail()
          assert.deepEqual(rest, same)
          if (truncated === undefined) assert.deepEqual(hunks, allHunks)
          else assert.ok(whole.limitsReached.includes(truncated))
        }
      }),
      runs,
    )
  },
)

test('an output that ends early has the counts of what was read', () => {
  const old = store({ a: { mode: '100644', content: 'a\n' }, b: { mode: '100644', content: '' } })
  const lines = 'x\n'.repeat(1000)
  const next = store({
    a: { mode: '100644', content: 'b\n' },
    b: { mode: '100644', content: lines },
    c: { mode: '100644', content: 'c\n' },
  })
  const output = diffOf(old, next)
  const diff = parse(output, { maxScanBytes: output.length - 500 })
  assert.deepEqual([diff.fileCount, diff.additions, diff.deletions], [3, null, null])
  assert.deepEqual(diff.limitsReached, ['scan'])
  assert.deepEqual(
    diff.files.map(({ additions, truncated }) => [additions, truncated]),
    [
      [1, undefined],
      [undefined, 'scan'],
      [undefined, 'scan'],
    ],
  )
  const parser = createDiffParser(unlimited)
  parser.push(output.subarray(0, output.length - 1))
  assert.throws(() => parser.end(), /incomplete/)
  assert.deepEqual(parser.end('time').limitsReached, ['time'])
})

test('a long line is cut between characters', () => {
  const content = `${'é'.repeat(50)}\n`
  const old = store({})
  const latin1 = Buffer.from(content).toString('latin1')
  const next = store({ a: { mode: '100644', content: latin1 } })
  for (const maxLineBytes of [10, 11, 12]) {
    const [file] = parse(diffOf(old, next), { maxLineBytes }).files
    const [hunk] = file?.hunks ?? []
    const letters = Math.floor((maxLineBytes - 1) / 2)
    assert.deepEqual(hunk?.lines, [`+${'é'.repeat(letters)}`])
    assert.deepEqual([hunk?.cutLines, hunk?.rawLines, file?.truncated], [[0], [], 'line'])
  }
})

test('a diff without changes is empty', () => {
  assert.deepEqual(parse(Buffer.alloc(0)), {
    files: [],
    fileCount: 0,
    addedFiles: 0,
    deletedFiles: 0,
    additions: 0,
    deletions: 0,
    limitsReached: [],
  })
})
