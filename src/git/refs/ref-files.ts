import { readFile } from 'node:fs/promises'
import { absentAs } from '#base/absence.ts'
import { type Fingerprint, readFingerprint } from '#base/file-fingerprint.ts'
import { createKnownFiles } from '#base/known-files.ts'
import { lookUpPacked } from './packed-lookup.ts'
import { zeroId } from './ref-name.ts'

// Most requests read refs that have not changed since the last one: a look at the timestamps costs a twentieth of a read.
const maxFiles = 10_000
const maxPackedFiles = 500
const maxPackedNames = 200
// A ref is a line.
const maxBytes = 4096

const files = createKnownFiles<string>(maxFiles)
const packedFiles = createKnownFiles<Map<string, string>>(maxPackedFiles)

/** Reads the file of a ref, or HEAD; empty when there is none. The file is not read again until it changes. */
export async function readRefFile(path: string): Promise<string> {
  const fingerprint = fingerprintOf(path)
  if (!fingerprint || fingerprint.kind === 'folder') return ''
  const known = files.get(path, fingerprint)
  if (known !== undefined) return known
  const content = await readFile(path, 'utf8').catch(absentAs(''))
  if (fingerprint.kind === 'file' && content.length <= maxBytes)
    files.set(path, fingerprint, content)
  return content
}

/**
 * Looks up refs in a packed-refs file; the result has those that exist. It is undefined for a file that is not sorted. What
 * was looked up is not read again until the file changes.
 */
export async function lookUpKnownPacked(
  path: string,
  names: Iterable<string>,
): Promise<Map<string, string> | undefined> {
  const fingerprint = fingerprintOf(path)
  const found = new Map<string, string>()
  if (!fingerprint) return found
  const values = knownIn(path, fingerprint)
  const unknown: string[] = []
  for (const name of names) {
    const value = values.get(name)
    if (value === undefined) unknown.push(name)
    else if (value !== zeroId) found.set(name, value)
  }
  if (unknown.length === 0) return found
  const read = await lookUpPacked(path, unknown)
  if (!read) return undefined
  for (const [name, value] of read) found.set(name, value)
  if (values.size + unknown.length > maxPackedNames) values.clear()
  for (const name of unknown) values.set(name, read.get(name) ?? zeroId)
  return found
}

/** What is known of a packed-refs file in its present state. */
function knownIn(path: string, fingerprint: Fingerprint): Map<string, string> {
  const known = packedFiles.get(path, fingerprint)
  if (known) return known
  const values = new Map<string, string>()
  packedFiles.set(path, fingerprint, values)
  return values
}

function fingerprintOf(path: string): Fingerprint | undefined {
  try {
    return readFingerprint(path)
  } catch (error) {
    return absentAs(undefined)(error)
  }
}
