import { type FileHandle, open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { orAborted } from '#base/timeouts.ts'
import { packHeaderBytes } from '../objects/pack.ts'
import { packBytes } from '../objects/packs.ts'
import { gitCommands } from '../process/commands.ts'
import type { Ended, GitProcess } from '../process/git-process.ts'
import { refNameFault } from '../refs/ref-name.ts'
import { readAllRefs } from '../refs/refs.ts'
import { importFailed, importTooLarge, toImportFault } from './import-error.ts'
import type { Mirroring } from './mirror.ts'

// The import is synced as a whole when it is complete.
const config = { 'core.fsync': 'none' }

// gitformat-pack(5): "PACK", the version, the number of objects.
const packCountAt = 8
const lineFeed = 10
// Beyond this, a single new pack is better.
const maxPacks = 8
const fewRefs = 20

/**
 * Imports every ref of a copy (local-copy.ts), with all reachable objects, into an empty repository. Objects are checked
 * like those of a push, and for completeness. Refs with names that are not allowed are omitted. Nothing is synced to disk.
 */
export async function mirrorCopy(
  copy: string,
  directory: string,
  mirroring: Mirroring,
): Promise<void> {
  const all = await readAllRefs(copy)
  const refs = [...all].filter(([name]) => refNameFault(name) === undefined)
  if (refs.length === 0) return
  const wanted = new Set(refs.map(([, id]) => id))
  const commands = refs.map(([name, id]) => `create ${name} ${id}\n`)
  const { git, signal } = mirroring
  // Started early, so that it is ready when the objects are.
  await using updater = await git.start(gitCommands.updateRefs(directory), optionsOf(mirroring))
  updater.stdout.resume()
  try {
    await takeObjects(copy, directory, wanted, mirroring)
    updater.stdin.end(commands.join(''))
    const updated = await orAborted(endOf(updater), signal)
    if (updated.exitCode !== 0) throw toImportFault(updated, [])
  } catch (error) {
    throw nameBroken(error, refs)
  }
  // Few refs are left to the first maintenance.
  if (refs.length > fewRefs) await packRefs(directory, mirroring)
}

async function takeObjects(
  copy: string,
  directory: string,
  ids: Set<string>,
  mirroring: Mirroring,
): Promise<void> {
  const wanted = [...ids].map((id) => `${id}\n`).join('')
  const packs = await packsOf(copy)
  if (packs.length > 0 && (await takePacks(packs, { copy, directory, wanted }, mirroring))) return
  await takeReachable({ copy, directory, wanted }, mirroring)
}

type Taking = {
  copy: string
  directory: string
  /** The ids that refs point to, one per line. */
  wanted: string
}

/**
 * Takes the packs of a copy unchanged, if all their objects are reachable. Returns false, with nothing taken, when
 * there is more in them, or when a later pack is none by itself.
 */
async function takePacks(
  packs: string[],
  { copy, directory, wanted }: Taking,
  mirroring: Mirroring,
): Promise<boolean> {
  const { git, signal } = mirroring
  await using counter = await git.start(gitCommands.listReachable(copy), optionsOf(mirroring))
  counter.stdin.end(wanted)
  const counting = Promise.all([countLines(counter.stdout), endOf(counter)])
  let expected = 0
  for (const [index, pack] of packs.entries()) {
    await using file = await open(pack)
    expected += await countOf(file)
    await using receiver = await startTaking(directory, file.fd, mirroring)
    if (index === packs.length - 1) {
      // Counting is faster than indexing a pack.
      const [count, counted] = await orAborted(counting, signal)
      if (counted.exitCode !== 0) throw toImportFault(counted, [])
      if (count !== expected) {
        await receiver[Symbol.asyncDispose]()
        return removePacks(directory)
      }
    }
    const received = await orAborted(endOf(receiver), signal)
    if (received.exitCode !== 0 && packs.length > 1) return removePacks(directory)
    await requireTaken(received, directory, mirroring)
  }
  return true
}

/** Takes only the reachable objects, in a new pack. */
async function takeReachable(
  { copy, directory, wanted }: Taking,
  mirroring: Mirroring,
): Promise<void> {
  const { git, onProgress } = mirroring
  const sending = { ...optionsOf(mirroring), onProgress }
  await using sender = await git.start(gitCommands.packReachable(copy), sending)
  await using receiver = await startTaking(directory, sender.stdout, mirroring)
  sender.stdin.end(wanted)
  const ending = Promise.all([endOf(sender), endOf(receiver)])
  const [sent, received] = await orAborted(ending, mirroring.signal)
  // After a broken pipe the sender's message is no help; the receiver's is.
  const isBroken = sent.errorOutput === '' || /write error/.test(sent.errorOutput)
  if (sent.exitCode !== 0 && !isBroken) throw toImportFault(sent, [])
  await requireTaken(received, directory, mirroring)
}

async function startTaking(
  directory: string,
  reads: number | Readable,
  mirroring: Mirroring,
): Promise<GitProcess> {
  const { git, limits, onProgress } = mirroring
  const take = gitCommands.takePack(directory, String(limits.fileMaxBytes))
  const receiver = await git.start(take, { ...optionsOf(mirroring), onProgress, reads })
  receiver.stdout.resume()
  return receiver
}

async function requireTaken(received: Ended, directory: string, { limits }: Mirroring) {
  if (received.exitCode === 0) return
  const isTooLarge =
    /exceeds maximum allowed size/.test(received.errorOutput) ||
    (await packBytes(directory)) >= limits.fileMaxBytes
  throw isTooLarge ? importTooLarge(limits.fileMaxBytes) : toImportFault(received, [])
}

/** Lists the packs of a repository, oldest first; none when there are too many, or loose objects. */
async function packsOf(directory: string): Promise<string[]> {
  const entries = await readdir(join(directory, 'objects'), {
    recursive: true,
    withFileTypes: true,
  })
  const paths = entries
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.idx'))
    .map(({ parentPath, name }) => join(parentPath, name))
  if (paths.length > maxPacks || !paths.every((path) => path.endsWith('.pack'))) return []
  const packs = await Promise.all(
    paths.map(async (path) => ({ path, madeAt: (await stat(path)).mtimeMs })),
  )
  return packs.sort((a, b) => a.madeAt - b.madeAt).map(({ path }) => path)
}

/** Reads the number of objects from a pack's header. */
async function countOf(pack: FileHandle): Promise<number> {
  const { buffer } = await pack.read(Buffer.alloc(packHeaderBytes), 0, packHeaderBytes, 0)
  return buffer.readUInt32BE(packCountAt)
}

async function removePacks(directory: string): Promise<false> {
  const folder = join(directory, 'objects', 'pack')
  for (const name of await readdir(folder)) await rm(join(folder, name))
  return false
}

async function countLines(stream: Readable): Promise<number> {
  let count = 0
  for await (const chunk of stream) for (const byte of chunk) if (byte === lineFeed) count += 1
  return count
}

async function packRefs(directory: string, mirroring: Mirroring): Promise<void> {
  await using child = await mirroring.git.start(
    gitCommands.packRefs(directory),
    optionsOf(mirroring),
  )
  child.stdout.resume()
  const ended = await orAborted(endOf(child), mirroring.signal)
  if (ended.exitCode !== 0) throw toImportFault(ended, [])
}

function optionsOf({ owner, limits }: Mirroring) {
  return { owner, limits, config }
}

/** Waits for the end of a git process, and drains its channel, which it would otherwise block on. */
function endOf(child: GitProcess): Promise<Ended> {
  child.channel.resume()
  return child.ended
}

/** Replaces an error about a missing object by one that names the ref. */
function nameBroken(error: unknown, refs: [name: string, id: string][]): unknown {
  const errorOutput =
    error instanceof Error && error.cause instanceof Error ? error.cause.message : ''
  const [, id] = /(?:bad object|nonexistent object) ([0-9a-f]{40,64})/.exec(errorOutput) ?? []
  const broken = id === undefined ? undefined : refs.find(([, value]) => value === id)
  if (!broken) return error
  return importFailed(
    `The source is damaged: its ref "${broken[0]}" points to a missing object.`,
    error,
  )
}
