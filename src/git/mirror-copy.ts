import { pipeline } from 'node:stream/promises'
import { gitCommands } from './commands.ts'
import type { Ended, GitProcess } from './git-process.ts'
import { importFailed, importTooLarge, toImportFault } from './import-fault.ts'
import type { Mirroring } from './mirror.ts'
import { refNameFault } from './ref-name.ts'
import { packBytes, readAllRefs } from './refs.ts'

// All of it is synced at once when it is complete.
const config = { 'core.fsync': 'none' }

/**
 * Takes every ref of a copy (local-copy.ts), with all that it reaches, into an empty repository. The objects go
 * through one pack, in which each is checked like those of a push, and that nothing is missing. Refs of refused
 * names are left out. Nothing of it is synced to the disk.
 */
export async function mirrorCopy(
  copy: string,
  directory: string,
  mirroring: Mirroring,
): Promise<void> {
  const all = (await readAllRefs(copy, Number.POSITIVE_INFINITY)) ?? new Map<string, string>()
  const refs = [...all].filter(([name]) => refNameFault(name) === undefined)
  if (refs.length === 0) return
  const commands = refs.map(([name, id]) => `create ${name} ${id}\n`)
  try {
    await takeObjects(copy, directory, new Set(all.values()), mirroring)
    await run(gitCommands.updateRefs(directory), commands.join(''), mirroring)
  } catch (error) {
    throw nameBroken(error, refs)
  }
  await run(gitCommands.packRefs(directory), '', mirroring)
}

async function takeObjects(
  copy: string,
  directory: string,
  ids: Set<string>,
  mirroring: Mirroring,
): Promise<void> {
  const { git, limits, onProgress } = mirroring
  const { fileMaxBytes } = limits
  const options = { ...optionsOf(mirroring), onProgress }
  const take = gitCommands.takePack(directory, String(fileMaxBytes))
  await using sender = git.start(gitCommands.packReachable(copy), options)
  await using receiver = git.start(take, options)
  sender.stdin.end([...ids].map((id) => `${id}\n`).join(''))
  receiver.stdout.resume()
  // Whichever of the two breaks the pipe, it says why.
  const moved = pipeline(sender.stdout, receiver.stdin).catch(() => {})
  const [sent, received] = await untilEnded(
    Promise.all([endOf(sender), endOf(receiver), moved]),
    mirroring.signal,
  )
  if (sent.exitCode === 0 && received.exitCode === 0) return
  const isTooLarge =
    /exceeds maximum allowed size/.test(received.complaint) ||
    (await packBytes(directory)) >= fileMaxBytes
  if (isTooLarge) throw importTooLarge(fileMaxBytes)
  // Who is killed by the pipe that the other has broken says nothing.
  throw toImportFault(sent.exitCode !== 0 && sent.complaint !== '' ? sent : received, [])
}

async function run(command: readonly string[], input: string, mirroring: Mirroring): Promise<void> {
  await using child = mirroring.git.start(command, optionsOf(mirroring))
  child.stdin.end(input)
  child.stdout.resume()
  const ended = await untilEnded(endOf(child), mirroring.signal)
  if (ended.exitCode !== 0) throw toImportFault(ended, [])
}

function optionsOf({ owner, limits }: Mirroring) {
  return { owner, limits, config }
}

/** How a git ends. It ends when all that it wrote has been read. */
function endOf(child: GitProcess): Promise<Ended> {
  child.channel.resume()
  return child.ended
}

async function untilEnded<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  const stopped = Promise.withResolvers<never>()
  const stop = () => stopped.reject(signal.reason)
  signal.addEventListener('abort', stop)
  try {
    return await Promise.race([work, stopped.promise])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** Says which ref it is that leads to an object which is not there. */
function nameBroken(error: unknown, refs: [name: string, id: string][]): unknown {
  const complaint =
    error instanceof Error && error.cause instanceof Error ? error.cause.message : ''
  const [, id] = /(?:bad object|nonexistent object) ([0-9a-f]{40})/.exec(complaint) ?? []
  const broken = id === undefined ? undefined : refs.find(([, value]) => value === id)
  if (!broken) return error
  return importFailed(`The source is damaged: its ref "${broken[0]}" leads to nothing.`, error)
}
