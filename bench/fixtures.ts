import { createCipheriv } from 'node:crypto'
import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ObjectFormat } from '#base/object-id.ts'
import { createRandom, line, toData } from './generators.ts'
import { print } from './print.ts'
import type { Workspace } from './workspace.ts'

const mib = 2 ** 20
const bulkMib = 256
const commits = 3000
const folders = 60
// 2023-11-14, and an hour from commit to commit: the same history on every run.
const startSeconds = 1_700_000_000
const stepSeconds = 3600
const branchesPerTag = 20

// Without compression in the client, as the server is measured.
const stored = {
  'core.bigFileThreshold': '1',
  'core.compression': '0',
  'pack.compression': '0',
  'fastimport.unpackLimit': '1',
}

/** A repository on the client's side, with the settings to push it with. */
export type Source = {
  name: string
  path: string
  ref: string
  config: Record<string, string>
  /** SHA-1 by default. */
  objectFormat?: ObjectFormat
}

/** The repositories that are cloned and pushed, on the client's side. */
export type Fixtures = {
  /** A project's history: 3,000 commits, some thousand files in folders, edited again and again. */
  history: Source
  /** Ids of commits on top of the history, with one small change each, oldest first. */
  steps: string[]
  /** Incompressible files. */
  bulk: Source
  bulkMib: number
}

/** Creates the repositories that the comparisons share. */
export async function makeFixtures(workspace: Workspace, stepCount: number): Promise<Fixtures> {
  print('Creating a history of 3,000 commits')
  const history = await makeHistory(workspace, 'sha1')
  const steps = await addSteps(workspace, history, stepCount)
  print(`Creating ${bulkMib} MiB of incompressible data`)
  const bulk = await makeBulk(workspace, { name: 'bulk', sizes: evenSizes(bulkMib) })
  return { history, steps, bulk, bulkMib }
}

/** Creates the history again with ids of SHA-256, and the commits on top of it. */
export async function makeSha256History(
  workspace: Workspace,
  stepCount: number,
): Promise<Pick<Fixtures, 'history' | 'steps'>> {
  const history = await makeHistory(workspace, 'sha256')
  return { history, steps: await addSteps(workspace, history, stepCount) }
}

async function makeHistory(
  { folder, git }: Workspace,
  objectFormat: ObjectFormat,
): Promise<Source> {
  const name = objectFormat === 'sha1' ? 'history' : `history-${objectFormat}`
  const path = join(folder, `${name}.git`)
  const options = ['--initial-branch=main', `--object-format=${objectFormat}`]
  await git(['init', '--quiet', '--bare', ...options, path])
  await git(['-C', path, 'fast-import', '--quiet', '--date-format=raw'], { input: history() })
  await git(['-C', path, 'repack', '-adfq'], { config: { 'pack.threads': '1' } })
  const ofFormat = objectFormat === 'sha1' ? {} : { objectFormat }
  return { name, path, ref: 'refs/heads/main', config: {}, ...ofFormat }
}

async function addSteps(workspace: Workspace, { path, ref }: Source, count: number) {
  const { git } = workspace
  await git(['-C', path, 'fast-import', '--quiet', '--date-format=raw'], {
    input: steps(ref, count),
  })
  await git(['-C', path, 'pack-refs', '--all'])
  const { output } = await git(['-C', path, 'rev-list', '--reverse', `${ref}..refs/heads/steps`])
  return output.split('\n')
}

/** Creates a repository with one commit of incompressible files. */
export async function makeBulk(
  { folder, git }: Workspace,
  { name, sizes }: { name: string; sizes: number[] },
): Promise<Source> {
  const path = join(folder, `${name}.git`)
  await git(['init', '--quiet', '--bare', path])
  await git(['-C', path, 'fast-import', '--quiet', '--date-format=raw'], {
    config: stored,
    input: bulk(name, sizes),
  })
  return { name, path, ref: 'refs/heads/main', config: stored }
}

/** Creates a repository with one commit of texts, by path. */
export async function makeProject(
  { folder, git }: Workspace,
  name: string,
  texts: Record<string, string>,
): Promise<Source> {
  const path = join(folder, `${name}.git`)
  const changes = Object.entries(texts).map(([file, text]) => toModification(file, text))
  const ref = 'refs/heads/main'
  const input = [`${commitHead(ref, 0, 'Add workflows')}${changes.join('')}\n`]
  await git(['init', '--quiet', '--bare', '--initial-branch=main', path])
  await git(['-C', path, 'fast-import', '--quiet', '--date-format=raw'], { input })
  return { name, path, ref, config: {} }
}

/** Copies a repository and adds many branches and tags at commits throughout its history. */
export async function makeManyRefs(
  { folder, git }: Workspace,
  { path: from, ref }: Source,
  count: number,
): Promise<Source> {
  const name = `refs-${count}`
  const path = join(folder, `${name}.git`)
  await cp(from, path, { recursive: true, force: true })
  const { output } = await git(['-C', path, 'rev-list', ref])
  const commits = output.split('\n')
  const refs = Array.from({ length: count - 1 }, (_, index) => {
    const kind = index % branchesPerTag === 0 ? 'tags/v' : `heads/team-${index % 40}/change-`
    return `${commits[index % commits.length]} refs/${kind}${String(index).padStart(6, '0')}`
  })
  const all = [`${commits[0]} ${ref}`, ...refs].toSorted((a, b) =>
    a.slice(41) < b.slice(41) ? -1 : 1,
  )
  await git(['-C', path, 'pack-refs', '--all', '--prune'])
  // Git writes a file for each ref before it packs them, which takes minutes; gitrepository-layout(5) has the format.
  await writeFile(
    join(path, 'packed-refs'),
    `# pack-refs with: peeled fully-peeled sorted \n${all.join('\n')}\n`,
  )
  return { name, path, ref, config: {} }
}

/** Creates a repository with all commits of another in a number of packs, as many pushes leave it. */
export async function makeManyPacks(
  { folder, git }: Workspace,
  { path: from, ref }: Source,
  count: number,
): Promise<Source> {
  const name = `packs-${count}`
  const path = join(folder, `${name}.git`)
  const { output } = await git(['-C', from, 'rev-list', '--reverse', '--first-parent', ref])
  const commits = output.split('\n')
  await git(['init', '--quiet', '--bare', '--initial-branch=main', path])
  for (let pack = 1; pack <= count; pack++) {
    const commit = commits[Math.ceil((commits.length * pack) / count) - 1]
    await git(['-C', path, 'fetch', '--quiet', from, `+${commit}:${ref}`], {
      config: { 'fetch.unpackLimit': '1' },
    })
  }
  await git(['-C', path, 'pack-refs', '--all'])
  return { name, path, ref, config: {} }
}

/** Creates a repository with all commits of another in one pack with a bitmap. */
export async function makeMaintained(
  { folder, git }: Workspace,
  { path: from, ref }: Source,
): Promise<Source> {
  const name = 'maintained'
  const path = join(folder, `${name}.git`)
  await git(['init', '--quiet', '--bare', '--initial-branch=main', path])
  await git(['-C', path, 'fetch', '--quiet', from, `${ref}:${ref}`])
  await git(['-C', path, 'repack', '-adbq'])
  await git(['-C', path, 'pack-refs', '--all'])
  return { name, path, ref, config: {} }
}

/** Sizes in bytes: files of 8 MiB. */
export function evenSizes(totalMib: number): number[] {
  return Array<number>(totalMib / 8).fill(8 * mib)
}

/** Sizes in bytes from 1 to 32 MiB, about 2 GiB in all. */
export function mixedSizes(): number[] {
  return Array<number[]>(32)
    .fill([1, 2, 4, 8, 16, 32])
    .flat()
    .map((size) => size * mib)
}

function* history(): Generator<string> {
  const random = createRandom(1)
  const files: string[][] = []
  for (let index = 0; index < commits; index++) {
    const changes: string[] = []
    for (let change = 0; change < 1 + random(4); change++) {
      const isNew = files.length < 20 || random(3) === 0
      const file = isNew ? files.length : random(files.length)
      const lines = files[file] ?? Array.from({ length: 20 + random(150) }, () => line(random))
      lines[random(lines.length)] = line(random)
      lines.splice(random(lines.length), 0, line(random))
      files[file] = lines
      changes.push(toModification(`src/part-${file % folders}/file-${file}.txt`, lines.join('\n')))
    }
    yield `${commitHead('refs/heads/main', index, `Change ${changes.length} files`)}${changes.join('')}\n`
  }
}

function* steps(ref: string, count: number): Generator<string> {
  for (let index = 0; index < count; index++) {
    const from = index === 0 ? `from ${ref}^0\n` : ''
    const change = toModification(`src/part-${index % folders}/step.txt`, `Step ${index}\n`)
    yield `${commitHead('refs/heads/steps', commits + index, `Step ${index}`)}${from}${change}\n`
  }
}

function* bulk(name: string, sizes: number[]): Generator<Buffer | string> {
  const noise = createNoise(name)
  for (const [index, size] of sizes.entries()) {
    yield `blob\nmark :${index + 1}\ndata ${size}\n`
    yield* noise(size)
    yield '\n'
  }
  yield commitHead('refs/heads/main', 0, 'Add incompressible files')
  for (const index of sizes.keys()) yield `M 100644 :${index + 1} file-${index}.bin\n`
}

function commitHead(ref: string, index: number, message: string): string {
  const when = `${startSeconds + index * stepSeconds} +0000`
  return `commit ${ref}\ncommitter Ada <ada@example.com> ${when}\n${toData(message)}`
}

function toModification(path: string, content: string): string {
  return `M 100644 inline ${path}\n${toData(content)}`
}

/** Deterministic pseudorandom bytes: a cipher over zeros, which is fast. */
function createNoise(name: string): (size: number) => Generator<Buffer> {
  const key = Buffer.from(name.padEnd(32)).subarray(0, 32)
  const cipher = createCipheriv('aes-256-ctr', key, Buffer.alloc(16))
  const zeros = Buffer.alloc(mib)
  return function* (size) {
    for (let left = size; left > 0; left -= mib) yield cipher.update(zeros.subarray(0, left))
  }
}
