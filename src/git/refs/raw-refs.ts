import { open, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { absentAs } from '#base/absence.ts'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { trimEndOf } from '#base/trim-end.ts'
import { isRefName } from './ref-name.ts'

/**
 * Refs and HEAD as they are stored: object ids, or `ref:` and the name of another ref. Git treats names as bytes, so
 * each character here is a byte (latin1).
 */
export type RawRefs = Map<string, string>

const maxConcurrentReads = 32
const symbolicDepth = 5
const absence = absentAs(undefined)

/** Reads all refs of a repository in the "files" format: gitrepository-layout(5). Undefined when there is none. */
export async function readRawRefs(directory: string): Promise<RawRefs | undefined> {
  const head = await readLoose(directory, 'HEAD')
  if (head === undefined) return undefined
  const loose: RawRefs = new Map([['HEAD', head]])
  // Loose before packed, so that a ref that is being packed meanwhile is not missed.
  await forEachConcurrently(
    maxConcurrentReads,
    await looseNames(directory, 'refs'),
    async (name) => {
      const value = await readLoose(directory, name)
      if (value !== undefined) loose.set(name, value)
    },
  )
  const all = await readPacked(directory)
  for (const [name, value] of loose) all.set(name, value)
  return all
}

/** Reads some refs and the targets of symbolic ones; undefined for a ref that does not exist. */
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

/** Converts a name to the encoding of raw refs. */
export function toRawName(name: string): string {
  return Buffer.from(name, 'utf8').toString('latin1')
}

/** Whether bytes are a full ref name. */
export function isRawRefName(name: string): boolean {
  return isRefName(Buffer.from(name, 'latin1').toString('utf8'))
}

/** Returns the target of a symbolic ref's value. */
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
    // Skips lock files, whose names are not ref names.
    else if (entry.isFile() && isRawRefName(name)) names.push(name)
  }
  return names
}

async function readLoose(directory: string, name: string): Promise<string | undefined> {
  const text = await readFile(rawPath(directory, name), 'latin1').catch(absence)
  // Not `trim`, which would also remove bytes of multibyte characters.
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
