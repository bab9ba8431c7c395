import { readdirSync, readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { absentAs, isAbsence } from '#base/absence.ts'
import { type Fingerprint, isUnchanged, readFingerprint } from '#base/file-fingerprint.ts'
import { createKnownFiles } from '#base/known-files.ts'
import { hiddenRefs, isHiddenRef, zeroId } from './ref-name.ts'
import { isAscii, isRawRefName, parseRefFile, targetOf } from './stored-ref.ts'

// Most requests read refs that have not changed since the last one: a look at the timestamps costs a twentieth of a read.
const known = createKnownFiles<string>(10_000)
// A ref is a line.
const fileMaxBytes = 4096

/** Reads the value of a loose ref, or of HEAD; undefined when there is none. The file is not read again until it changes. */
export async function readLooseRef(directory: string, name: string): Promise<string | undefined> {
  const path = pathOf(directory, name)
  const fingerprint = present(() => readFingerprint(path))
  if (!fingerprint || fingerprint.kind === 'folder') return undefined
  const key = `${directory}/${name}`
  const before = known.get(key, fingerprint)
  if (before !== undefined) return before
  const text = await readFile(path, 'latin1').catch(absentAs(''))
  const value = parseRefFile(text)
  if (value !== undefined && fingerprint.kind === 'file' && text.length <= fileMaxBytes)
    known.set(key, fingerprint, value)
  return value
}

/** Lists the names of all loose refs. */
export async function listLooseRefs(directory: string, folder = 'refs'): Promise<string[]> {
  const path = pathOf(directory, folder)
  const options = { withFileTypes: true, encoding: 'latin1' } as const
  const names: string[] = []
  for (const entry of await readdir(path, options).catch(absentAs([]))) {
    const name = `${folder}/${entry.name}`
    if (entry.isDirectory()) names.push(...(await listLooseRefs(directory, name)))
    // Skips lock files, whose names are not ref names.
    else if (isRawRefName(name)) names.push(name)
  }
  return names
}

/**
 * HEAD and the loose refs of a repository, with the fingerprints of their files and folders when they were read. Names
 * and values are as in RawRefs. Git changes a ref by renaming a file, which changes the timestamps of its folder.
 */
export type LooseTree = { head: LooseFile; refs: LooseFolder }

type LooseFile = { fingerprint: Fingerprint; value: string }

type LooseFolder = {
  path: string | Buffer
  fingerprint: Fingerprint
  files: Map<string, LooseFile>
  folders: Map<string, LooseFolder>
}

/** Thrown for refs that only git can read, such as unusual or damaged files. */
export class LeftToGitError extends Error {
  override readonly name = 'LeftToGitError'
}

// Keeps a check to a few milliseconds; with more loose refs, maintenance is due.
const maxFiles = 1000
const maxFolders = 250

/**
 * Reads a tree, or updates one by reading only what may have changed. Returns whether anything has. Synchronous, so
 * the event loop is blocked meanwhile. Throws a LeftToGitError.
 */
export function readLooseTree(
  directory: string,
  before: LooseTree | undefined,
): { tree: LooseTree; hasChanged: boolean } {
  let hasChanged = before === undefined
  let [files, folders] = [0, 0]

  function readFile(name: string, known: LooseFile | undefined): LooseFile | undefined {
    const path = pathOf(directory, name)
    const fingerprint = readFingerprint(path)
    if (!fingerprint) return undefined
    if (known && isUnchanged(known.fingerprint, fingerprint)) return known
    if (fingerprint.kind !== 'file') throw new LeftToGitError(name)
    const value = present(() => readFileSync(path, 'latin1'))
    if (value === undefined) return undefined
    return { fingerprint, value: parsed(value, name) }
  }

  function readFolder(name: string, known: LooseFolder | undefined): LooseFolder | undefined {
    const path = known?.path ?? pathOf(directory, name)
    const fingerprint = readFingerprint(path)
    if (!fingerprint) return undefined
    if (fingerprint.kind !== 'folder') throw new LeftToGitError(name)
    folders += 1
    const folder =
      known && isUnchanged(known.fingerprint, fingerprint)
        ? entered(name, known)
        : listed(name, path, fingerprint, known)
    files += folder?.files.size ?? 0
    if (files > maxFiles || folders > maxFolders) throw new LeftToGitError('too many loose refs')
    return folder
  }

  // The folder has the same entries, but its subfolders may have changed.
  function entered(name: string, folder: LooseFolder): LooseFolder {
    for (const [child, known] of folder.folders) {
      const now = readFolder(`${name}/${child}`, known)
      if (!now) hasChanged = folder.folders.delete(child)
      else if (now !== known) folder.folders.set(child, now)
    }
    return folder
  }

  function listed(
    name: string,
    path: string | Buffer,
    fingerprint: Fingerprint,
    known?: LooseFolder,
  ): LooseFolder | undefined {
    const entries = present(() => readdirSync(path, { withFileTypes: true, encoding: 'latin1' }))
    if (!entries) return undefined
    const folder: LooseFolder = { path, fingerprint, files: new Map(), folders: new Map() }
    for (const entry of entries) {
      const child = `${name}/${entry.name}`
      if (entry.name.startsWith('.') || entry.name.endsWith('.lock') || child === hiddenRefs)
        continue
      if (entry.isDirectory()) {
        const inner = readFolder(child, known?.folders.get(entry.name))
        if (inner) folder.folders.set(entry.name, inner)
        continue
      }
      if (!isRawRefName(child)) throw new LeftToGitError(child)
      const before = known?.files.get(entry.name)
      const file = readFile(child, before)
      if (!file) continue
      folder.files.set(entry.name, file)
      if (file.value !== before?.value) hasChanged = true
    }
    if (!known || isMissing(known.files, folder.files) || isMissing(known.folders, folder.folders))
      hasChanged = true
    return folder
  }

  const head = readFile('HEAD', before?.head)
  const refs = readFolder('refs', before?.refs)
  if (!head || !refs) throw new LeftToGitError('no repository')
  if (head.value !== before?.head.value) hasChanged = true
  return { tree: { head, refs }, hasChanged }
}

/** Lists all loose refs of a tree. */
export function refsIn({ refs }: LooseTree): Map<string, string> {
  const found = new Map<string, string>()
  const add = (prefix: string, { files, folders }: LooseFolder) => {
    for (const [name, { value }] of files) found.set(`${prefix}/${name}`, value)
    for (const [name, folder] of folders) add(`${prefix}/${name}`, folder)
  }
  add('refs', refs)
  return found
}

function parsed(text: string, name: string): string {
  const value = parseRefFile(text)
  const target = targetOf(value)
  const isPlain = target === undefined ? value !== zeroId : isShownRef(target)
  // As git writes it.
  const expected = target === undefined ? `${value}\n` : `ref: ${target}\n`
  if (value === undefined || !isPlain || text !== expected) throw new LeftToGitError(name)
  return value
}

function isShownRef(name: string): boolean {
  return name.startsWith('refs/') && !isHiddenRef(name)
}

function isMissing(before: Map<string, unknown>, now: Map<string, unknown>): boolean {
  for (const name of before.keys()) if (!now.has(name)) return true
  return false
}

function pathOf(directory: string, name: string): string | Buffer {
  const path = `${directory}/${name}`
  if (isAscii(name)) return path
  return Buffer.concat([Buffer.from(`${directory}/`), Buffer.from(name, 'latin1')])
}

function present<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (isAbsence(error)) return undefined
    throw error
  }
}
