import { once } from 'node:events'
import { spawnGit } from './git.ts'
import { idDigits } from './object-format.ts'
import type { Random } from './random.ts'

/** A file of a random history; its path is raw, each character a byte. */
type OddFile = { mode: string; content: string }

/** The files of a commit by path. */
export type OddCommit = { id: string; files: ReadonlyMap<string, OddFile> }

const names: readonly [string, ...string[]] = [
  'a',
  'b.txt',
  'sub',
  'x:y',
  'quo"te',
  "apo'strophe",
  'tab\there',
  'line\nfeed',
  'return\r',
  'back\\slash',
  'space end ',
  '-dash',
  '*',
  '[a]',
  'a-',
  'a.b',
  'a0',
  'inv\xe4lid',
  Buffer.from('ü', 'utf8').toString('latin1'),
  'l'.repeat(255),
]
const modes = ['100644', '100755', '120000', '160000'] as const
const contents = ['one', 'two', 'three'] as const
const submodules = ['1'.repeat(idDigits), '2'.repeat(idDigits)] as const

/**
 * Writes a random history on `main` with git-fast-import(1): merges of several parents, side branches that were reverted,
 * renames, and odd names. The commits, oldest first; the last one reaches most of them.
 */
export async function writeOddTrees(
  path: string,
  random: Random,
  { commits }: { commits: number },
): Promise<OddCommit[]> {
  const made: ReadonlyMap<string, OddFile>[] = []
  const chunks: Buffer[] = []
  const write = (text: string) => chunks.push(Buffer.from(`${text}\n`, 'latin1'))
  for (let mark = 1; mark <= commits; mark++) {
    const parents = parentsOf(random, mark)
    const base = parents[random.below(parents.length)]
    const files = new Map(base === undefined ? [] : made[base - 1])
    // Of a merge, some of each parent, or all of one.
    for (const parent of parents.slice(random.below(2) === 0 ? 1 : parents.length)) {
      for (const [name, file] of made[parent - 1] ?? [])
        if (random.below(2) === 0) put(files, name, file)
    }
    for (let change = random.below(parents.length > 1 ? 2 : 4); change > 0; change--)
      changeOne(random, files)
    made.push(files)
    // Some are of the same second, and some of an earlier one than their parents.
    const at = 1_700_000_000 + mark * 3 - random.below(12)
    if (parents.length === 0) write('reset refs/heads/main\n')
    write(`commit refs/heads/main\nmark :${mark}\ncommitter Ada <ada@example.com> ${at} +0000`)
    write(`data ${String(mark).length}\n${mark}`)
    if (parents[0] !== undefined) write(`from :${parents[0]}`)
    for (const parent of parents.slice(1)) write(`merge :${parent}`)
    write('deleteall')
    for (const [name, { mode, content }] of files) {
      if (mode === '160000') write(`M ${mode} ${content} ${quote(name)}`)
      else write(`M ${mode} inline ${quote(name)}\ndata ${content.length}\n${content}`)
    }
  }
  for (let mark = 1; mark <= commits; mark++) write(`get-mark :${mark}`)
  const child = spawnGit(path, ['fast-import', '--quiet', '--force'])
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  child.stderr.on('data', (chunk) => {
    output += chunk
  })
  const ended = once(child, 'close')
  child.stdin.end(Buffer.concat(chunks))
  const [exitCode] = await ended
  const ids = output.trim().split('\n')
  if (exitCode !== 0 || ids.length !== commits) throw new Error(`git fast-import: ${output}`)
  return made.map((files, index) => ({ id: ids[index] ?? '', files }))
}

function parentsOf(random: Random, mark: number): number[] {
  // Some histories are merged that have nothing in common.
  if (mark === 1 || random.below(20) === 0) return []
  const count = random.pick([1, 1, 1, 2, 2, 3])
  const found = new Set([mark - 1])
  for (let more = 1; more < count; more++) found.add(1 + random.below(mark - 1))
  const all = [...found]
  return random.below(2) === 0 ? all : all.reverse()
}

function changeOne(random: Random, files: Map<string, OddFile>): void {
  const existing = [...files.keys()]
  const kind = random.below(5)
  const old = existing[random.below(existing.length)]
  if (kind === 0 && old !== undefined) {
    files.delete(old)
    return
  }
  const depth = 1 + random.below(3)
  const name = Array.from({ length: depth }, () => random.pick(names)).join('/')
  const moved = old === undefined ? undefined : files.get(old)
  if (kind === 1 && old !== undefined && moved) {
    files.delete(old)
    put(files, name, moved)
    return
  }
  const mode = random.pick(modes)
  put(files, name, {
    mode,
    content: mode === '160000' ? random.pick(submodules) : random.pick(contents),
  })
}

/** Adds a file, in place of files that are folders of it, or in it. */
function put(files: Map<string, OddFile>, name: string, file: OddFile): void {
  for (const other of files.keys())
    if (other.startsWith(`${name}/`) || name.startsWith(`${other}/`)) files.delete(other)
  files.set(name, file)
}

/** A path as git-fast-import(1) takes it. */
function quote(name: string): string {
  const escaped = name.replace(
    /["\\\n]/g,
    (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`,
  )
  return `"${escaped}"`
}
