import { open, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isAbsence } from '../../base/absence.ts'
import { forEachConcurrently } from '../../base/for-each-concurrently.ts'
import { trimEndOf } from '../../base/trim-end.ts'
import { isRefName } from './ref-name.ts'

/**
 * Refs, and HEAD, as they are stored: object ids, or `ref:` and the name of another ref. To git, names are
 * bytes in no encoding, so here each character is a byte (latin1).
 */
export type RawRefs = Map<string, string>

const readsAtOnce = 32
const symbolicDepth = 5

/** All refs of a repository of the "files" format, gitrepository-layout(5); undefined when it is not there. */
export async function readRawRefs(directory: string): Promise<RawRefs | undefined> {
  const head = await readLoose(directory, 'HEAD')
  if (head === undefined) return undefined
  const loose: RawRefs = new Map([['HEAD', head]])
  // Loose before packed: a ref that is being packed is then seen in one place at least.
  await forEachConcurrently(readsAtOnce, await looseNames(directory, 'refs'), async (name) => {
    const value = await readLoose(directory, name)
    if (value !== undefined) loose.set(name, value)
  })
  const all = await readPacked(directory)
  for (const [name, value] of loose) all.set(name, value)
  return all
}

/** Some refs, and those that they stand for; undefined for a ref that is not there. */
export async function readRawRefsNamed(
  directory: string,
  wanted: Iterable<string>,
): Promise<Map<string, string | undefined>> {
  const values = new Map<string, string | undefined>()
  for (const ref of wanted) {
    let name: string | undefined = ref
    for (let depth = 0; depth < symbolicDepth && name !== undefined; depth++) {
      const value = await readLoose(directory, name)
      values.set(name, value)
      name = targetOf(value)
    }
  }
  const rest = new Set([...values.keys()].filter((name) => values.get(name) === undefined))
  if (rest.size === 0) return values
  for (const [name, value] of await readPacked(directory, rest)) values.set(name, value)
  return values
}

/** A name as raw refs have it. */
export function toRawName(name: string): string {
  return Buffer.from(name, 'utf8').toString('latin1')
}

/** Whether bytes are the full name of a ref: as long as a name may be in characters. */
export function isRawRefName(name: string): boolean {
  return isRefName(Buffer.from(name, 'latin1').toString('utf8'))
}

/** The ref that a symbolic one stands for. */
export function targetOf(value: string | undefined): string | undefined {
  return value?.startsWith('ref:') ? value.slice('ref:'.length) : undefined
}

async function looseNames(directory: string, folder: string): Promise<string[]> {
  const path = rawPath(directory, folder)
  const entries = await readdir(path, { withFileTypes: true, encoding: 'latin1' }).catch(absence)
  const names: string[] = []
  for (const entry of entries ?? []) {
    const name = `${folder}/${entry.name}`
    if (entry.isDirectory()) names.push(...(await looseNames(directory, name)))
    // A lock has the name of no ref, though it may hold what a ref is about to become.
    else if (entry.isFile() && isRawRefName(name)) names.push(name)
  }
  return names
}

async function readLoose(directory: string, name: string): Promise<string | undefined> {
  const text = await readFile(rawPath(directory, name), 'latin1').catch(absence)
  // Not `trim`, to which one byte of some letters is a space.
  const line = trimEndOf(text ?? '', ' \t\r\n')
  if (/^[0-9a-f]{40}$/.test(line)) return line
  const target = line.startsWith('ref:') ? line.slice('ref:'.length).replace(/^ +/, '') : ''
  return target === '' || /[\r\n]/.test(target) ? undefined : `ref:${target}`
}

async function readPacked(directory: string, wanted?: Set<string>): Promise<RawRefs> {
  const found: RawRefs = new Map()
  const file = await open(join(directory, 'packed-refs')).catch(absence)
  if (!file) return found
  for await (const line of file.readLines({ encoding: 'latin1' })) {
    const [, id = '', name = ''] = /^([0-9a-f]{40}) (.+)$/.exec(line) ?? []
    if (name !== '' && (!wanted || wanted.has(name))) found.set(name, id)
    if (found.size === wanted?.size) break
  }
  return found
}

function rawPath(directory: string, name: string): Buffer {
  return Buffer.concat([Buffer.from(`${directory}/`), Buffer.from(name, 'latin1')])
}

// Files of a live repository come and go between two looks; a ref may also be the folder of others.
function absence(error: unknown): undefined {
  if (!isAbsence(error)) throw error
}
