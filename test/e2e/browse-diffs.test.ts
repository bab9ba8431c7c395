// Tags: each-store

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { toPatch } from '#browse/patch-text.ts'
import { emptyTreeId } from '#git/objects/new-objects.ts'
import { randomHistory, startBrowseSite } from '../support/browse-site.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { git } from '../support/git.ts'
import { gitZeros, objectFormat } from '../support/object-format.ts'

type Site = Awaited<ReturnType<typeof startBrowseSite>>

type File = {
  path: string
  pathBase64?: string
  oldPath?: string
  oldPathBase64?: string
  status: string
  oldMode: string | null
  newMode: string | null
  oldId: string | null
  newId: string | null
  similarity?: number
  isBinary: boolean
  additions: number | null
  deletions: number | null
  truncated: string | null
}

let site: Site
/** Ids of the commits of `main`, newest first, each with its parents. */
let history: string[][]

const emptyTree = emptyTreeId(objectFormat)
const zero = gitZeros
const withRenames = ['-r', '-z', '-M', '-l500', '--no-abbrev']

before(async () => {
  site = await startBrowseSite()
  await site.importCommits(randomHistory({ seed: 3, commits: 120 }))
  await site.push('main', 'side')
  history = (await site.git('rev-list', '--parents', 'main', 'side'))
    .split('\n')
    .map((line) => line.split(' '))
})

after(() => site[Symbol.asyncDispose]())

const bytesOf = (path: string, base64: string | undefined) =>
  (base64 === undefined ? Buffer.from(path) : Buffer.from(base64, 'base64')).toString('latin1')

function outputOf(args: string[], input?: Buffer, index?: string): string {
  const env = { ...process.env, ...(index !== undefined && { GIT_INDEX_FILE: index }) }
  const ran = spawnSync('git', [`--git-dir=${site.path}`, ...args], { input, env })
  assert.equal(ran.status, 0, `${args.join(' ')}: ${ran.stderr}`)
  return ran.stdout.toString('latin1')
}

function rowsOf(files: File[]): string {
  const letters: Record<string, string> = { added: 'A', deleted: 'D', modified: 'M', renamed: 'R' }
  return files
    .map((file) => {
      const { status, oldMode, newMode, oldId, newId, similarity } = file
      const score = similarity === undefined ? '' : String(similarity).padStart(3, '0')
      const old = file.oldPath === undefined ? '' : `${bytesOf(file.oldPath, file.oldPathBase64)}\0`
      const modes = `${oldMode ?? '000000'} ${newMode ?? '000000'}`
      const ids = `${oldId ?? zero} ${newId ?? zero}`
      const path = bytesOf(file.path, file.pathBase64)
      return `:${modes} ${ids} ${letters[status] ?? 'T'}${score}\0${old}${path}\0`
    })
    .join('')
}

test(
  'the diff of each commit has the files and counts of git, and git applies its patch',
  exhaustive,
  async () => {
    let applied = 0
    for (const [id = '', parent, ...others] of history) {
      const answer = await site.admin.get(`/repos/site/commits/${id}?diff=1`)
      assert.equal(answer.status, 200, answer.text)
      const { diff, parents, tree } = answer.body
      assert.deepEqual(
        [parents, diff.base],
        [[...(parent ? [parent, ...others] : [])], parent ?? null],
      )
      const base = parent ?? emptyTree
      assert.equal(rowsOf(diff.files), outputOf(['diff-tree', ...withRenames, '--raw', base, id]))
      const numbers = outputOf(['diff-tree', '-r', '-M', '-l500', '--numstat', base, id])
      const counts = diff.files.map(({ additions, deletions, isBinary }: File) =>
        isBinary ? '-\t-' : `${additions}\t${deletions}`,
      )
      const expected = numbers.split('\n').slice(0, -1)
      for (const [index, file] of diff.files.entries()) {
        // There, a change of the type is one patch.
        if (file.status === 'type-changed') continue
        const unchanged = file.isBinary ? '-\t-' : '0\t0'
        const shown = (expected[index] ?? '').split('\t').slice(0, 2).join('\t')
        // Equal binary files are not compared.
        if (file.oldId === file.newId) assert.ok(['0\t0', '-\t-'].includes(shown), unchanged)
        else assert.equal(counts[index], shown)
      }
      assert.deepEqual([diff.fileCount, diff.limitsReached], [diff.files.length, []])
      const { patch, omitted } = toPatch(diff, { forPeople: false })
      if (omitted.length > 0 || patch.length === 0) continue
      const index = join(site.path, 'test-index')
      outputOf(['read-tree', base], undefined, index)
      outputOf(['apply', '--cached', '--whitespace=nowarn', '-'], patch, index)
      assert.equal(outputOf(['write-tree'], undefined, index).trim(), tree)
      applied += 1
    }
    assert.ok(applied > 0)
  },
)

test('a file is shown alone as it is among all', exhaustive, async () => {
  const seen = new Set<string>()
  for (const [id] of history) {
    const { diff } = (await site.admin.get(`/repos/site/commits/${id}?diff=true`)).body
    for (const file of diff.files) {
      const { path, pathBase64, status } = file
      const kind = `${status} ${pathBase64 ?? path}`
      if (seen.has(kind)) continue
      seen.add(kind)
      const query = pathBase64
        ? `pathBase64=${encodeURIComponent(pathBase64)}`
        : `path=${encodeURIComponent(path)}`
      const alone = (await site.admin.get(`/repos/site/commits/${id}?${query}`)).body
      assert.deepEqual(alone.diff.files, [file])
      if (file.oldPath === undefined || file.oldPathBase64 !== undefined) continue
      const old = await site.admin.get(
        `/repos/site/commits/${id}?path=${encodeURIComponent(file.oldPath)}`,
      )
      assert.deepEqual(old.body.diff.files, [file])
    }
  }
  const kinds = [...seen].map((kind) => kind.split(' ')[0])
  assert.deepEqual([...new Set(kinds)].sort(), [
    'added',
    'deleted',
    'modified',
    'renamed',
    'type-changed',
  ])
})

test('the comparison of two commits is that of git', exhaustive, async () => {
  const ids = history.map(([id = '']) => id)
  for (let index = 0; index < 40; index++) {
    const base = ids[(index * 7) % ids.length] ?? ''
    const head = ids[(index * 13 + 5) % ids.length] ?? ''
    const { body, status, text } = await site.admin.get(
      `/repos/site/compare?base=${base}&head=${head.slice(0, 10)}&limit=1000`,
    )
    assert.equal(status, 200, text)
    const counts = await site.git('rev-list', '--left-right', '--count', `${base}...${head}`)
    assert.equal(`${body.behind}\t${body.ahead}`, counts)
    const bases = (await site.git('merge-base', '--all', base, head)).split('\n')
    assert.ok(bases.includes(body.mergeBase))
    // With `base..head`, git lists too many when clocks were wrong.
    const range = await site.git('rev-list', '--right-only', `${base}...${head}`)
    const found: string[] = body.commits.map(({ id }: { id: string }) => id)
    assert.equal(found.join('\n'), range)
    const known = new Set((await site.git('rev-list', base)).split('\n'))
    const all = (await site.git('rev-list', head)).split('\n')
    assert.deepEqual(found.toSorted(), all.filter((id) => !known.has(id)).toSorted())
    const raw = outputOf(['diff-tree', ...withRenames, '--raw', body.mergeBase, head])
    assert.equal(rowsOf(body.diff.files), raw)
    const [behind, ahead] = counts.split('\t').map(Number)
    const expected =
      ahead === 0 ? (behind === 0 ? 'identical' : 'behind') : behind === 0 ? 'ahead' : 'diverged'
    assert.equal(body.status, expected)
  }
})

test('unrelated histories are compared directly', async () => {
  await site.importCommits(
    'commit refs/heads/other\ncommitter A <a@x> 5 +0000\ndata 1\nxM 100644 inline only.txt\ndata 2\na\n\n',
  )
  await site.push('other')
  const other = await site.git('rev-parse', 'other')
  const { body } = await site.admin.get('/repos/site/compare?base=main&head=other&limit=1')
  assert.deepEqual([body.status, body.mergeBase, body.ahead], ['unrelated', null, 1])
  assert.equal(body.diff.base, body.base)
  assert.deepEqual(
    body.commits.map(({ id }: { id: string }) => id),
    [other],
  )
  const args = ['diff-tree', ...withRenames, '--raw', 'main', 'other']
  assert.equal(rowsOf(body.diff.files), outputOf(args))
})

test('a comparison needs the repository, and revisions of it', async () => {
  const reader = await site.service.client({ username: 'reader' })
  assert.equal((await reader.get('/repos/site/compare?base=main&head=side')).status, 404)
  for (const query of ['base=main&head=nope', 'base=nope&head=main', 'base=main..side&head=main'])
    assert.equal(
      (await site.admin.get(`/repos/site/compare?${query}`)).body.code,
      'revision_not_found',
    )
  assert.equal((await git(site.path, ['cat-file', '-t', 'main'])).stdout, 'commit')
})
