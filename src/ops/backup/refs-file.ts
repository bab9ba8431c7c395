import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isObjectId } from '#base/object-id.ts'
import { isRawRefName, type RawRefs, targetOf } from '#git/refs/stored-ref.ts'
import { BackupError } from './manifest.ts'

/** Formats refs as a file of a backup: `<value> <name>` lines, sorted by name, so that equal refs make equal files. */
export function toRefsFile(refs: RawRefs): Buffer {
  const lines = [...refs]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${value} ${name}\n`)
  return Buffer.from(lines.join(''), 'latin1')
}

/** Parses a refs file. Throws a BackupError for anything that `toRefsFile` does not write. */
export function readRefsFile(path: string, bytes: Buffer): RawRefs {
  const refs: RawRefs = new Map()
  const lines = bytes.toString('latin1').split('\n')
  if (lines.pop() !== '') throw invalid(path, 'its last line is incomplete')
  let last = ''
  for (const line of lines) {
    const [, value = '', name = ''] = /^([^ ]+) (.+)$/s.exec(line) ?? []
    if (!isValue(value)) throw invalid(path, 'a line has no object id')
    if (name !== 'HEAD' && !isFullName(name)) throw invalid(path, 'a line has no ref name')
    if (name <= last) throw invalid(path, 'its lines are not in order')
    refs.set(name, value)
    last = name
  }
  const head = targetOf(refs.get('HEAD'))
  if (!head?.startsWith('refs/heads/')) throw invalid(path, 'its HEAD is not a branch')
  return refs
}

function isValue(value: string): boolean {
  const target = targetOf(value)
  return target === undefined ? isObjectId(value) : isFullName(target)
}

function isFullName(name: string): boolean {
  return name.startsWith('refs/') && isRawRefName(name)
}

function invalid(path: string, reason: string): BackupError {
  return new BackupError(`${path} is not in the format of svc: ${reason}.`)
}

/** Writes the refs and HEAD of a new repository: gitrepository-layout(5), packed-refs as by git-pack-refs(1). */
export async function writeRefs(directory: string, refs: RawRefs): Promise<void> {
  const packed: string[] = []
  for (const [name, value] of refs) {
    const target = targetOf(value)
    if (target === undefined) packed.push(`${value} ${name}\n`)
    else await writeSymbolic(directory, name, target)
  }
  // Without peeled tags in the file, git peels them itself until it packs the refs.
  const content = ['# pack-refs with: sorted \n', ...packed].join('')
  if (packed.length > 0) await writeFile(join(directory, 'packed-refs'), content, 'latin1')
}

async function writeSymbolic(directory: string, name: string, target: string): Promise<void> {
  const path = Buffer.concat([Buffer.from(`${directory}/`), Buffer.from(name, 'latin1')])
  if (name !== 'HEAD') await mkdir(parentOf(path), { recursive: true })
  await writeFile(path, Buffer.from(`ref: ${target}\n`, 'latin1'))
}

function parentOf(path: Buffer): Buffer {
  return Buffer.from(dirname(path.toString('latin1')), 'latin1')
}
