import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'
import { spawnGit } from './git.ts'
import { createRandom, type Random } from './random.ts'

const execute = promisify(execFile)

/** Names as bytes (latin1), all of which git allows. */
const names = [
  'plain.txt',
  'folder/inner.txt',
  'folder/deep/er.txt',
  'a "quoted" name',
  'ta\tb',
  'line\nfeed',
  'return\r',
  'co:lon',
  ':(top)magic*?[x]',
  '-dash',
  ' blanks ',
  'back\\slash\\101',
  '\xc3\xa9t\xc3\xa9',
  'not utf-8 \xff\xe9',
] as const

const words = [
  'red',
  'green',
  'blue',
  'Amber',
  'a.*b',
  '--option',
  '\xc3\xbcber',
  '\xff\xfe',
] as const

/** Lines of files by their names, each with its line feed, which the last one may lack. */
type Files = Map<string, string[]>

/**
 * Writes a random history on `main`, with git-fast-import(1): changes, renames and merges of files with odd names and
 * contents. Returns the names of the files of its end. All texts are bytes (latin1).
 */
export async function importOddHistory(
  path: string,
  { seed, commits }: { seed: number; commits: number },
): Promise<string[]> {
  const random = createRandom(seed)
  const states: Files[] = []
  const lines: string[] = []
  let current: Files = new Map()
  for (let mark = 1; mark <= commits; mark++) {
    const merged = mark > 5 && mark < commits && random.chance(0.2) ? random.below(mark - 2) : -1
    const other = states[merged]
    current = other ? merge(random, current, other) : new Map(current)
    for (let change = random.below(3); change >= 0; change--) changeFiles(random, current)
    states.push(current)
    const from = mark === 1 ? [] : [`from :${mark - 1}`]
    lines.push(
      'commit refs/heads/main',
      `mark :${mark}`,
      `author Ada <ada@example.com> ${1_700_000_000 + mark} +0100`,
      `committer Bob <bob@example.com> ${1_700_000_000 + mark * 60} -0230`,
      data(`Commit ${mark}\n\nIts body\n`),
      ...from,
      ...(other ? [`merge :${merged + 1}`] : []),
      'deleteall',
      ...[...current].flatMap(([name, content]) => [
        `M 100644 inline ${quote(name)}`,
        data(content.join('')),
      ]),
    )
  }
  const child = spawnGit(path, ['fast-import', '--quiet'])
  const ended = once(child, 'close')
  child.stdin.end(Buffer.from(`${lines.join('\n')}\n`, 'latin1'))
  const [exitCode] = await ended
  if (exitCode !== 0) throw new Error(`git fast-import ended with ${exitCode}`)
  return [...current.keys()]
}

function changeFiles(random: Random, files: Files): void {
  const name = random.pick(names)
  const content = files.get(name)
  if (!content) {
    files.set(
      name,
      Array.from({ length: random.below(30) }, () => newLine(random)),
    )
  } else if (random.chance(0.1)) {
    const target = random.pick(names)
    files.delete(name)
    files.set(target, content)
  } else if (files.size > 5 && random.chance(0.05)) {
    files.delete(name)
  } else {
    const at = random.below(content.length + 1)
    const added = Array.from({ length: random.below(4) }, () => newLine(random))
    files.set(
      name,
      whole([...content.slice(0, at), ...added, ...content.slice(at + random.below(3))]),
    )
  }
  const changed = files.get(name)
  // No line feed at the end.
  if (changed && random.chance(0.1)) files.set(name, [...changed.slice(0, -1), 'the end'])
}

function merge(random: Random, one: Files, other: Files): Files {
  const merged: Files = new Map()
  for (const name of new Set([...one.keys(), ...other.keys()])) {
    const [ours, theirs] = [one.get(name), other.get(name)]
    if (ours && theirs && random.chance(0.5)) {
      const at = Math.min(ours.length, theirs.length) >> 1
      merged.set(name, whole([...ours.slice(0, at), ...theirs.slice(at)]))
    } else merged.set(name, ours ?? theirs ?? [])
  }
  return merged
}

/** Only the last line may lack its line feed. */
function whole(lines: string[]): string[] {
  return lines.map((line, index) =>
    line.endsWith('\n') || index === lines.length - 1 ? line : `${line}\n`,
  )
}

function newLine(random: Random): string {
  const count = 1 + random.below(4)
  const text = Array.from({ length: count }, () => random.pick(words)).join(' ')
  return `${text} ${random.below(1000)}${random.chance(0.2) ? '\r\n' : '\n'}`
}

function data(content: string): string {
  return `data ${content.length}\n${content}`
}

/** Quotes a name for git-fast-import(1). */
function quote(name: string): string {
  return `"${[...name].map(octal).join('')}"`
}

function octal(byte: string): string {
  return `\\${byte.charCodeAt(0).toString(8).padStart(3, '0')}`
}

/** Runs git with words of any bytes (latin1), which Node cannot pass on; its output as bytes. Fails as `execFile` does. */
export async function gitWithBytes(cwd: string, args: readonly string[]): Promise<Buffer> {
  const given = args.map((argument) => [...argument].map(octal).join(''))
  // The command substitution strips line feeds at the end.
  const script =
    'for given; do shift; word=$(printf "$given."); set -- "$@" "${word%.}"; done; exec git -c safe.bareRepository=all "$@"'
  const { stdout } = await execute('sh', ['-c', script, 'sh', ...given], {
    cwd,
    encoding: 'buffer',
    maxBuffer: 2 ** 30,
    env: { PATH: process.env.PATH, HOME: '/nonexistent', LANG: 'C' },
  })
  return stdout
}
