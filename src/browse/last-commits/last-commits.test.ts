// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { newId } from '#base/ids.ts'
import { createLog } from '#base/log.ts'
import { createObjectPool } from '#git/objects/object-pool.ts'
import { createGit } from '#git/process/git-process.ts'
import { fuzzing } from '../../../test/support/fuzz.ts'
import { createProject, git as runGit, temporaryFolder } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { importHistory } from '../../../test/support/history.ts'
import { type OddCommit, writeOddTrees } from '../../../test/support/odd-trees.ts'
import { createRandom } from '../../../test/support/random.ts'
import { createCommitsById } from '../commits-by-id.ts'
import { createDiskCache } from '../disk-cache.ts'
import { createTrees } from '../trees.ts'
import { createLastCommitFiles, lastCommitLimits } from './last-commit-files.ts'
import { createLastCommits } from './last-commits.ts'

const git = createGit({ settings: gitLimits, owner: 'test', path: process.env.PATH ?? '' })
const log = createLog({ level: 'silent', output: process.stderr })
const longMs = 600_000

type SiteOptions = {
  savedFrom?: number
  dataDir?: string
  /** The number of trees after which the time of a search is over; those of 64 commits are read ahead. */
  treesUntilDeadline?: number
}

const treesUntilDeadline = 80

/** Last commits of a repository, each time with nothing in memory, and files in a folder. */
async function openSite(directory: string, options: SiteOptions = {}) {
  const pool = createObjectPool({ git })
  const { treesUntilDeadline: maxTrees = Number.POSITIVE_INFINITY } = options
  let deadline = new AbortController()
  let opened = 0
  const startDeadline = () => {
    deadline = new AbortController()
    opened = 0
    return deadline.signal
  }
  const allTrees = createTrees()
  const trees: typeof allTrees = {
    ...allTrees,
    open(objects, id) {
      opened += 1
      if (opened === maxTrees) deadline.abort(new DOMException('over', 'TimeoutError'))
      return allTrees.open(objects, id)
    },
  }
  const dataDir = options.dataDir ?? join(directory, 'data')
  const files = createLastCommitFiles(
    createDiskCache({
      root: join(dataDir, 'browse', 'last-commits'),
      isInPlace: async () => true,
      ...lastCommitLimits,
    }),
  )
  const { savedFrom = 0 } = options
  let walks = 0
  const counting: typeof git = {
    ...git,
    start: (command, started) => {
      if (command.includes('rev-list')) walks += 1
      return git.start(command, started)
    },
  }
  const commits = createCommitsById()
  const parts = { git: counting, trees, commits, files, log, savedFrom, startDeadline }
  const nearby = maxTrees === Number.POSITIVE_INFINITY ? {} : { maxNearby: 0 }
  const lastCommits = createLastCommits({ ...parts, ...nearby, waitMs: longMs })
  const objects = pool.of(directory)
  return {
    lastCommits,
    walks: () => walks,
    /** The last commits of a folder by name; undefined where there is no such folder. */
    async of(commit: string, path: string) {
      const root = await objects.find(`${commit}^{tree}`)
      const found = await trees.find(objects, root?.id ?? '', path).catch(() => undefined)
      if (found?.mode !== '40000') return undefined
      const repository = { id: repositoryId, path: directory }
      const folder = { repository, objects, commit, path, tree: found.id }
      let last = await lastCommits.of(folder)
      for (let turn = 0; turn < 100 && !last.isComplete; turn++) last = await lastCommits.of(folder)
      assert.ok(last.isComplete)
      return new Map([...last.byName].sort())
    },
    /** The last commits of the entries of a folder, as far as each is found alone. */
    async ofEach(commit: string, path: string, names: string[]) {
      const root = await objects.find(`${commit}^{tree}`)
      const { id: tree } = await trees.find(objects, root?.id ?? '', path)
      const folder = {
        repository: { id: repositoryId, path: directory },
        objects,
        commit,
        path,
        tree,
      }
      const found = names.map(async (name): Promise<[string, string | undefined]> => {
        return [name, await lastCommits.ofEntry(folder, name)]
      })
      return new Map(await Promise.all(found))
    },
    async [Symbol.asyncDispose]() {
      await lastCommits[Symbol.asyncDispose]()
      await pool[Symbol.asyncDispose]()
    },
  }
}

const repositoryId = newId()

/** A bare repository with 600 commits in a folder; its path. */
async function importLongHistory(folder: string): Promise<string> {
  const directory = join(folder, 'site.git')
  await runGit(folder, ['init', '--quiet', '--bare', directory])
  await importHistory(directory, { commits: 600 })
  return directory
}

function foldersOf({ files }: OddCommit): string[] {
  const folders = new Set([''])
  for (const name of files.keys()) {
    const parts = name.split('/')
    for (let depth = 1; depth < parts.length; depth++) folders.add(parts.slice(0, depth).join('/'))
  }
  return [...folders]
}

function entriesOf({ files }: OddCommit, folder: string): string[] {
  const start = folder === '' ? '' : `${folder}/`
  const inside = [...files.keys()].filter((name) => name.startsWith(start))
  return [...new Set(inside.map((name) => name.slice(start.length).split('/')[0] ?? ''))].sort()
}

/** What git says, which takes a path as bytes. */
function logOf(directory: string, commit: string, path: string): string {
  const args = [
    '--literal-pathspecs',
    `--git-dir=${directory}`,
    'log',
    '-1',
    '--format=%H',
    commit,
    '--',
  ]
  // Node has no arguments in bytes; the shell makes them of octal digits.
  const octal = [...path].map((byte) => `\\0${byte.charCodeAt(0).toString(8)}`).join('')
  const script = 'path=$(printf %bx "$1"); shift; exec git "$@" "${path%x}"'
  return execFileSync('sh', ['-c', script, 'sh', octal, ...args], { encoding: 'utf8' }).trim()
}

test('last commits are those of git log -1, fresh and inherited, in odd random histories', async (t) => {
  const { seed } = fuzzing()
  t.diagnostic(`SVC_FUZZ_SEED=${seed}`)
  const random = createRandom(seed)
  await using project = await createProject()
  const directory = join(project.path, '.git')
  const commits = await writeOddTrees(project.path, random, { commits: 60 })
  await using inheriting = await openSite(directory)
  let [compared, alone] = [0, 0]
  for (const [index, commit] of commits.entries()) {
    // Each is asked for by one that knows what was asked before; some also by one that knows nothing.
    const isCompared = index % 12 === 11
    if (!isCompared && random.below(2) === 0) continue
    const dataDir = join(project.path, `none-${index}`)
    await using fresh = await openSite(directory, { dataDir })
    await using slow = await openSite(directory, { dataDir: `${dataDir}-slow`, treesUntilDeadline })
    for (const folder of foldersOf(commit)) {
      const inherited = await inheriting.of(commit.id, folder)
      if (!isCompared) continue
      const entries = entriesOf(commit, folder)
      const expected = entries.map((entry): [string, string] => {
        const path = folder === '' ? entry : `${folder}/${entry}`
        return [entry, logOf(directory, commit.id, path)]
      })
      compared += expected.length
      await using unsearched = await openSite(directory, { dataDir: `${dataDir}-unsearched` })
      const each = await unsearched.ofEach(commit.id, folder, entries)
      assert.equal(unsearched.walks(), 0)
      const found = expected.filter(([entry]) => each.get(entry) !== undefined)
      alone += found.length
      for (const [entry, id] of found) assert.equal(each.get(entry), id, `${folder}/${entry}`)
      assert.deepEqual(inherited, new Map(expected), `${commit.id} ${JSON.stringify(folder)}`)
      assert.deepEqual(await inheriting.ofEach(commit.id, folder, entries), inherited)
      assert.deepEqual(await fresh.of(commit.id, folder), new Map(expected), folder)
      assert.deepEqual(await slow.of(commit.id, folder), new Map(expected), folder)
    }
  }
  assert.ok(compared > 0)
  assert.ok(alone > 0)
})

test('a search ends at a commit whose answers are known, from memory or a file', async () => {
  await using project = await temporaryFolder()
  const directory = await importLongHistory(project.path)
  const head = (await runGit(directory, ['rev-parse', 'main'])).stdout
  await using first = await openSite(directory, { savedFrom: 20 })
  const answers = await first.of(head, '')
  assert.equal(answers?.size, 50)
  assert.equal(first.walks(), 1)
  await first.of(head, '')
  assert.equal(first.walks(), 1)
  const folder = join(directory, 'data', 'browse', 'last-commits', repositoryId)
  const [name = '', ...others] = await readdir(folder)
  assert.deepEqual(others, [])

  // One that has the file alone does not walk.
  await using second = await openSite(directory, { savedFrom: 20 })
  assert.deepEqual(await second.ofEach(head, '', [...(answers?.keys() ?? [])]), answers)
  assert.deepEqual(await second.of(head, ''), answers)
  assert.equal(second.walks(), 0)

  // A damaged file is ignored.
  const damaged = join(project.path, 'damaged')
  const copy = join(damaged, 'browse', 'last-commits', repositoryId)
  await mkdir(copy, { recursive: true })
  await writeFile(join(copy, name), `${'0'.repeat(64)}\n{"version":1}\n`)
  await using third = await openSite(directory, { savedFrom: 20, dataDir: damaged })
  assert.deepEqual(await third.of(head, ''), answers)
})

test('a search that takes too long is given up, and says so', async () => {
  await using project = await createProject()
  const directory = join(project.path, '.git')
  await using pool = createObjectPool({ git })
  const trees = createTrees()
  const files = { load: async () => undefined, save: async () => {} }
  let started = 0
  // Its history never comes.
  const silent: typeof git = {
    ...git,
    async start(command, options) {
      started += 1
      const child = await git.start(command, options)
      return { ...child, stdout: new PassThrough() }
    },
  }
  const commits = createCommitsById()
  const startDeadline = () => AbortSignal.timeout(1)
  const parts = { git: silent, trees, commits, files, log, waitMs: 1, startDeadline, maxNearby: 0 }
  await using lastCommits = createLastCommits(parts)
  const commit = await project.git('rev-parse', 'main')
  const tree = await project.git('rev-parse', 'main^{tree}')
  const repository = { id: repositoryId, path: directory }
  const folder = { repository, objects: pool.of(directory), commit, path: '', tree }
  assert.equal((await lastCommits.of(folder)).isComplete, false)
  await lastCommits.idle()
  assert.equal((await lastCommits.of(folder)).isComplete, false)
  assert.equal(started, 1)
})

test('a search that takes too long goes on from there with the next call', async () => {
  await using project = await temporaryFolder()
  const directory = await importLongHistory(project.path)
  const commit = (await runGit(directory, ['rev-parse', 'main'])).stdout
  await using site = await openSite(directory, { treesUntilDeadline })
  const answers = await site.of(commit, '')
  assert.ok(site.walks() > 3, String(site.walks()))
  assert.equal(answers?.size, 50)
  for (const [name, id] of answers) assert.equal(id, logOf(directory, commit, name))
})
