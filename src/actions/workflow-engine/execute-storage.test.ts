import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'

let engine: Engine
before(async () => {
  engine = await startEngine()
})
after(() => engine[Symbol.asyncDispose]())

const cached = (key: string, step = 'make', more = '') => `
steps:
  - uses: actions/cache@v4
    id: cache
    with:
      path: |
        deps
        ~/.store
      key: ${key}
      ${more}
  - name: ${step}
    run: |
      echo "hit=\${{ steps.cache.outputs.cache-hit }} matched=\${{ steps.cache.outputs.cache-matched-key }}"
      [ -e deps ] && find deps ~/.store | sort && cat deps/file
      mkdir -p deps ~/.store && echo ${key} >deps/file && ln -sf file deps/link && echo x >~/.store/x
`

test('a cache is saved after a successful job and restored by the next run', async () => {
  const first = await engine.run({ workflows: cached('one') })
  assert.equal(first.conclusion, 'success', first.log)
  assert.match(first.log, /There is no cache for one\./)
  assert.match(first.outputOf('Post Run actions/cache'), /Saved .* as the cache one in /)
  const second = await engine.run({ workflows: cached('one') })
  const made = second.outputOf('make')
  assert.match(made, /^hit=true matched=one\n/)
  for (const path of ['.store/x', 'deps/file', 'deps/link']) assert.ok(made.includes(`${path}\n`))
  assert.match(made, /\none\n$/)
  assert.match(second.outputOf('Post Run actions/cache'), /not saved again/)
})

test('large files come back as they were', async () => {
  const { log, conclusion } = await engine.run({
    workflows: `
jobs:
  save:
    steps:
      - run: |
          mkdir deps && head -c 9000001 /dev/urandom >deps/random && head -c 9000001 /dev/zero >deps/zero
          (cd deps && sha256sum random zero >sums)
      - uses: actions/cache/save@v4
        with: { path: deps, key: large }
  restore:
    needs: save
    steps:
      - uses: actions/cache/restore@v4
        with: { path: deps, key: large }
      - run: (cd deps && sha256sum --check sums)
`,
  })
  assert.equal(conclusion, 'success', log)
})

test('restore-keys find a cache by the beginning of its key', async () => {
  await engine.run({ workflows: cached('linux-1') })
  const { log, outputOf } = await engine.run({
    workflows: cached('linux-2', 'make', 'restore-keys: linux-'),
  })
  assert.match(outputOf('make'), /^hit=false matched=linux-1\n/)
  assert.match(log, /as the cache linux-2/)
})

test('a cache of other paths, and one of a failed job, is not used', async () => {
  const failed = await engine.run({
    workflows: `
steps:
  - uses: actions/cache@v4
    with: { path: a, key: failing }
  - run: mkdir a; exit 1
`,
  })
  assert.equal(failed.stepConclusions['Post Run actions/cache'], 'skipped')
  await engine.run({
    workflows:
      'steps: [{ run: mkdir a }, { uses: actions/cache/save@v4, with: { path: a, key: k } }]',
  })
  const other = await engine.run({
    workflows:
      'steps: [{ uses: actions/cache/restore@v4, with: { path: b, key: k, fail-on-cache-miss: true } }]',
  })
  assert.equal(other.conclusion, 'failure')
  assert.match(other.log, /There is no cache for k\./)
})

test('lookup-only finds a cache without restoring it', async () => {
  const { log } = await engine.run({
    workflows: `
steps:
  - run: mkdir a
  - uses: actions/cache/save@v4
    with: { path: a, key: look }
  - run: rmdir a
  - uses: actions/cache/restore@v4
    id: look
    with: { path: a, key: look, lookup-only: true }
  - run: echo "\${{ steps.look.outputs.cache-hit }}"; test ! -e a && echo nothing
`,
  })
  assert.match(log, /Found the cache look\.[\s\S]*\ntrue\nnothing\n/)
})

test('artifacts go from job to job, without hidden files and below their common folder', async () => {
  const { log, conclusion } = await engine.run({
    workflows: `
jobs:
  build:
    steps:
      - run: mkdir -p out/sub out/.git && touch out/a.js out/a.map out/sub/b.js out/.git/c 'out/-n x' && ln -s a.js out/link.js
      - uses: actions/upload-artifact@v4
        with:
          name: built
          path: |
            out
            !out/*.map
      - uses: actions/upload-artifact@v5
        id: one
        with: { name: one, path: out/a.js }
      - run: echo '\${{ join(steps.one.outputs.*, ' ') }}'
  use:
    needs: build
    steps:
      - uses: actions/download-artifact@v4
        with: { name: built, path: got }
      - run: find got | sort; test ! -L got/link.js
      - uses: actions/download-artifact@v4
        with: { path: all }
      - run: find all -type f | sort
`,
  })
  assert.equal(conclusion, 'success', log)
  assert.match(log, /^build \| [0-9a-f-]{36} file:\/\/\/.*\/one\.tar\.zst [0-9a-f]{64}$/m)
  const files = ['got', 'got/-n x', 'got/a.js', 'got/link.js', 'got/sub', 'got/sub/b.js']
  const all = ['all/built/-n x', 'all/built/a.js', 'all/built/link.js', 'all/built/sub/b.js']
  const text = log.replaceAll(/^use \| /gm, '')
  assert.ok(text.includes(`${files.join('\n')}\n`), text)
  assert.ok(text.includes(`${[...all, 'all/one/a.js'].join('\n')}\n`), text)
})

test('links are followed within the workspace, and those that lead out are named', async () => {
  const { log, conclusion, outputOf } = await engine.run({
    workflows: `
jobs:
  build:
    steps:
      - run: |
          mkdir -p out/sub other /tmp/kept && touch out/sub/f other/f /tmp/kept/f ~/f
          ln -s / out/root; ln -s ../.. out/sub/up; ln -s . out/self; ln -s self out/again; ln -s none out/broken
          ln -s /etc/passwd out/name; ln -s ../other out/other; ln -s ../other/f out/file; ln -s /tmp/kept out/kept
          ln -s "$PWD/other" out/absolute; ln -s /etc direct; ln -s ~/f home
          for i in $(seq 30); do mkdir -p many && ln -s / many/$i; done
      - name: upload
        uses: actions/upload-artifact@v4
        with:
          name: built
          path: |
            out
            direct
            direct/hosts
            home
            many
            !out/sub/up
      - name: save
        uses: actions/cache/save@v4
        with:
          path: |
            out/root
            direct/hosts
            other
          key: links
  use:
    needs: build
    steps:
      - uses: actions/download-artifact@v4
        with: { name: built }
      - run: find . -type f | sort | tr '\\n' ' '
        name: list
      - uses: actions/cache/restore@v4
        with: { path: "out/root\\ndirect/hosts\\nother", key: links }
      - run: readlink out/root && find other -type f
        name: cached
`,
  })
  assert.equal(conclusion, 'success', log)
  const names = ['absolute/f', 'file', 'kept/f', 'other/f', 'sub/f'].map((name) => `./out/${name} `)
  assert.equal(outputOf('list'), `./home ${names.join('')}\n`, log)
  assert.equal(outputOf('cached'), '/\nother/f\n')
  const named = (step: string) =>
    [
      ...outputOf(step).matchAll(
        /^::warning::(?:\/\S*\/)?(\S+) is left out: it leads out of the/gm,
      ),
    ].map(([, name]) => name)
  const upload = named('upload')
  assert.equal(upload.length, 20)
  assert.equal(upload[0], 'direct')
  assert.equal(upload[1], 'name')
  assert.match(outputOf('upload'), /13 other paths that lead out are left out, too\./)
  assert.ok(!outputOf('upload').includes('out/sub/up'))
  assert.deepEqual(named('save'), ['hosts'])
})

test('an artifact is replaced only when the step says so', async () => {
  const upload = (more = '') =>
    `{ uses: actions/upload-artifact@v4, with: { name: a, path: f${more} } }`
  const { steps, log } = await engine.run({
    workflows: `steps: [{ run: echo 1 >f }, ${upload()}, ${upload(', overwrite: true')}, ${upload()}]`,
  })
  assert.deepEqual(
    steps.map(({ conclusion }) => conclusion),
    ['success', 'success', 'success', 'failure'],
  )
  assert.match(log, /This run has an artifact a already; "overwrite: true" replaces it\./)
})

test('without files, if-no-files-found decides', async () => {
  const upload = (more: string) =>
    `{ continue-on-error: true, uses: actions/upload-artifact@v4, with: { path: none${more} } }`
  const { steps, entries } = await engine.run({
    workflows: `steps: [${upload('')}, ${upload(', if-no-files-found: error')}, ${upload(', if-no-files-found: ignore')}]`,
  })
  assert.match(steps[0]?.output ?? '', /^::warning::No file matches/)
  assert.match(steps[1]?.fault ?? '', /No file matches/)
  assert.match(steps[2]?.output ?? '', /^No file matches/)
  assert.equal(entries.filter(({ kind }) => kind === 'annotation').length, 1)
})

test('a missing artifact is named with those that there are', async () => {
  const { log } = await engine.run({
    workflows: `
steps:
  - run: touch f
  - uses: actions/upload-artifact@v4
    with: { path: f }
  - uses: actions/download-artifact@v4
    with: { name: other }
`,
  })
  assert.match(log, /This run has no artifact other; it has artifact\./)
})

test('a step that keeps files has the time limit of a step', async () => {
  const { conclusion, log } = await engine.run({
    workflows: `
steps:
  - run: truncate -s 60M big; for i in $(seq 40); do ln big big$i; cp --reflink=never --sparse=always big s$i; done
  - uses: actions/cache/save@v4
    timeout-minutes: 0.001
    with: { path: ., key: slow }
`,
  })
  assert.equal(conclusion, 'timed_out', log)
})
