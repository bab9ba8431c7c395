import { isRawRefName, type RawRefs, targetOf } from '../git/refs/raw-refs.ts'
import { BackupError } from './manifest.ts'

/** Refs as a file of a backup: `<value> <name>` lines, sorted by name, so that equal refs are equal files. */
export function toRefsFile(refs: RawRefs): Buffer {
  const lines = [...refs]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${value} ${name}\n`)
  return Buffer.from(lines.join(''), 'latin1')
}

/** Reads such a file. Throws a BackupError for anything in it that svc would not have written. */
export function readRefsFile(path: string, bytes: Buffer): RawRefs {
  const refs: RawRefs = new Map()
  const lines = bytes.toString('latin1').split('\n')
  if (lines.pop() !== '') throw odd(path, 'its last line is cut off')
  let last = ''
  for (const line of lines) {
    const [, value = '', name = ''] = /^([^ ]+) (.+)$/s.exec(line) ?? []
    if (!isValue(value)) throw odd(path, 'a line has no object id')
    if (name !== 'HEAD' && !isFullName(name)) throw odd(path, 'a line has no ref name')
    if (name <= last) throw odd(path, 'its lines are not in order')
    refs.set(name, value)
    last = name
  }
  const head = targetOf(refs.get('HEAD'))
  if (!head?.startsWith('refs/heads/')) throw odd(path, 'its HEAD is no branch')
  return refs
}

function isValue(value: string): boolean {
  const target = targetOf(value)
  return target === undefined ? /^[0-9a-f]{40}$/.test(value) : isFullName(target)
}

function isFullName(name: string): boolean {
  return name.startsWith('refs/') && isRawRefName(name)
}

function odd(path: string, why: string): BackupError {
  return new BackupError(`${path} is not as svc writes it: ${why}.`)
}
