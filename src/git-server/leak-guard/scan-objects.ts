import { setImmediate } from 'node:timers/promises'
import { listObjects, readObjects } from '#git/objects/object-stream.ts'
import type { PackedObject } from '#git/objects/pack.ts'
import type { Git } from '#git/process/git-process.ts'
import type { Credential } from './credential.ts'
import { scanInSteps } from './scan-text.ts'

/** An object of a push with the credentials in it. */
export type LeakyObject = { id: string; type: 'commit' | 'blob' | 'tag'; credentials: Credential[] }

type Scan = {
  leaky: LeakyObject[]
  /** Sentences about what was not scanned. */
  gaps: string[]
  /** Whether it started git processes. */
  wasSlow: boolean
}

const objectMaxBytes = 5 * 1024 * 1024
const allMaxBytes = 256 * 1024 * 1024
const maxObjects = 200_000
const maxLeaky = 1000
const timeoutMs = 20_000

type Pushed = {
  /** The objects of the push, unless they are many. */
  objects: readonly PackedObject[] | undefined
  /** Sees only the objects of the push. */
  quarantinedGit: Git
}

/** Scans the files and messages in the quarantine of a push. */
export async function scanObjects(
  directory: string,
  { objects, quarantinedGit }: Pushed,
): Promise<Scan> {
  if (!objects) return scanLargePack(quarantinedGit, directory)
  const leaky: LeakyObject[] = []
  for (const object of objects) leaky.push(...(await scanObject(object)))
  return { leaky, gaps: [], wasSlow: false }
}

async function scanObject({ id, type, content }: PackedObject): Promise<LeakyObject[]> {
  if (type === 'tree') return []
  const steps = scanInSteps(content)
  let step = steps.next()
  for (; !step.done; step = steps.next()) await setImmediate()
  const credentials = step.value
  if (credentials.length === 0) return []
  if (type === 'blob') return [{ id, type, credentials }]
  // Lines count from the start of the message, which follows the first empty line.
  const headerLines = content.toString('latin1').split('\n').indexOf('') + 1
  const toMessageLine = ({ line }: Credential) => Math.max(1, line - headerLines)
  return [
    {
      id,
      type,
      credentials: credentials.map((found) => ({ ...found, line: toMessageLine(found) })),
    },
  ]
}

async function scanLargePack(git: Git, directory: string): Promise<Scan> {
  const signal = AbortSignal.timeout(timeoutMs)
  const leaky: LeakyObject[] = []
  const gaps: string[] = []
  try {
    const { ids, skipped } = await chooseObjects(git, directory, signal)
    gaps.push(...skipped)
    for await (const object of readObjects(git, directory, ids, signal)) {
      leaky.push(...(await scanObject(object)))
      if (leaky.length >= maxLeaky) {
        gaps.push(`The leak guard stops after ${maxLeaky} files and messages with credentials.`)
        break
      }
      // Scanning blocks the event loop.
      await setImmediate()
    }
  } catch (error) {
    if (error !== signal.reason) throw error
    gaps.push(
      `The leak guard scanned only a part of this push: it stops after ${timeoutMs / 1000} s.`,
    )
  }
  return { leaky, gaps, wasSlow: true }
}

/** Chooses the objects to scan, smaller messages and files of the whole push before what exceeds its limits. */
async function chooseObjects(git: Git, directory: string, signal: AbortSignal) {
  const ids: string[] = []
  let total = 0
  let large = 0
  let over = 0
  for await (const { id, type, bytes } of listObjects(git, directory, signal)) {
    if (type === 'tree') continue
    if (bytes > objectMaxBytes) large++
    else if (total + bytes > allMaxBytes || ids.length >= maxObjects) over++
    else {
      total += bytes
      ids.push(id)
    }
  }
  const skipped = []
  if (large > 0) skipped.push(`The leak guard scans no file over 5 MiB; this push has ${large}.`)
  if (over > 0) {
    skipped.push(
      `The leak guard scans 256 MiB of a push; ${over} files and messages are beyond that.`,
    )
  }
  return { ids, skipped }
}
