import { existsSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findProgram } from '../base/find-program.ts'
import { closeInheritedDescriptors } from '../base/inherited-descriptors.ts'
import { insideFolders } from './bubblewrap.ts'
import { startBubblewrapped } from './bubblewrapped.ts'
import { cleanUp, workspacesElsewhere } from './clean-up.ts'
import { assertHidden, hidingMounts } from './hidden-paths.ts'
import { type Choice, chooseIsolation, describeIsolation, type SandboxMode } from './isolation.ts'
import type { MemoryController } from './memory-group.ts'
import { type MemoryTrial, tryMemory } from './memory-trial.ts'
import { removeTree } from './removal.ts'
import type { Isolation, Sandbox, SandboxLimits, Workspace } from './sandbox.ts'
import { systemMounts } from './system-mounts.ts'
import { findTools } from './tools.ts'
import { startUnsandboxed } from './unsandboxed.ts'
import { createWorkspace } from './workspace.ts'
import { makeWorkspace } from './workspace-folder.ts'

export type SandboxOptions = {
  /** A folder of this runner alone, on the disk, in which rooms are made. */
  folder: string
  /** Where programs are looked for, in the form of PATH. */
  path: string
  network: 'none' | 'full'
  /** With `auto` and `require` steps run in bubblewrap where it works; chooseIsolation says what follows elsewhere. */
  mode: SandboxMode
  /** Whether steps may run as this very user without saying so by `none`: they are that user's own. */
  ownUserAllowed?: boolean
  limits: SandboxLimits
  /** Further paths of the machine that steps can read at the same place. */
  readOnlyPaths: readonly string[]
  /** Paths of the machine that steps must not see, even where they could read what is around them. */
  hiddenPaths: readonly string[]
}

/**
 * Finds out what isolation this machine can give, and clears away what an earlier runner has left in the
 * folder. Throws when the folder or the system's own programs are not there, and when the paths to read show what
 * is hidden.
 */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  assertHidden(options.hiddenPaths, options.readOnlyPaths)
  const tools = findTools(options.path)
  await cleanUp(options.folder, tools)
  const memory = await tryMemory({
    tools,
    maxBytes: options.limits.memoryMaxBytes,
    mayChange: true,
  })
  const { isolation, choice } = await tryOut(options, memory)
  const limited = { ...options, controller: memory.controller }
  if (choice === 'bubblewrap') return { isolation, openRoom: bubblewrapRooms(limited) }
  if (choice === 'refused') return { isolation, openRoom: refuse(isolation.description) }
  return { isolation, openRoom: await workingPlainRooms(limited) }
}

/** What isolation steps have, and why bubblewrap does not work where it does not. */
type Probed = { isolation: Isolation; choice: Choice; fault: string | undefined }

/** Finds out the same and leaves nothing behind. Throws as `openSandbox` does. */
export async function probeSandbox(options: Omit<SandboxOptions, 'folder'>): Promise<Probed> {
  assertHidden(options.hiddenPaths, options.readOnlyPaths)
  const tools = findTools(options.path)
  const folder = await mkdtemp(join(tmpdir(), 'svc-sandbox-'))
  try {
    const { memoryMaxBytes: maxBytes } = options.limits
    const memory = await tryMemory({ tools, maxBytes, mayChange: false })
    return await tryOut({ ...options, folder }, memory)
  } finally {
    await removeTree(folder, tools)
  }
}

async function tryOut(asked: SandboxOptions, memory: MemoryTrial): Promise<Probed> {
  closeInheritedDescriptors()
  const options = { ...asked, controller: memory.controller }
  const fault =
    options.mode === 'none' ? 'SVC_SANDBOX is none' : await trialFault(bubblewrapRooms(options))
  if (options.mode !== 'none' && fault !== undefined && options.readOnlyPaths.length > 0) {
    // A setting that is wrong must not cost the sandbox.
    const without = await trialFault(bubblewrapRooms({ ...options, readOnlyPaths: [] }))
    if (without === undefined) throw new Error(`What steps are to read cannot be shown: ${fault}`)
  }
  const found = { ...options, memory, fault, isRoot: isRoot() }
  return { isolation: describeIsolation(found), choice: chooseIsolation(found), fault }
}

type Rooms = () => Promise<Workspace>
type RoomOptions = Omit<SandboxOptions, 'mode'> & { controller: MemoryController | undefined }

function bubblewrapRooms(options: RoomOptions): Rooms {
  const { folder, path, network, limits, readOnlyPaths, hiddenPaths, controller } = options
  const memory = controller && { controller, maxBytes: limits.memoryMaxBytes }
  const tools = findTools(path)
  const { args, shown } = systemMounts(network)
  const stage = findStage([folder, ...readOnlyPaths])
  return async () => {
    const bwrap = findProgram('bwrap', path)
    if (!bwrap) throw new Error('bubblewrap is not installed: apt-get install bubblewrap')
    // Looked for each time: some are made only later.
    const hiding = hidingMounts(hiddenPaths, { shown, isOther: isRoot() })
    const system = [...args, ...hiding]
    const setup = { tools, bwrap, network, limits, system, readOnlyPaths, stage }
    const place = await makeWorkspace(folder, { ownUser: isRoot(), tools, memory })
    const start = startBubblewrapped.bind(undefined, setup)
    return createWorkspace({ place, inside: insideFolders, limits, tools, start })
  }
}

function plainRooms({ folder, path, limits, controller }: RoomOptions): Rooms {
  const memory = controller && { controller, maxBytes: limits.memoryMaxBytes }
  const tools = findTools(path)
  return async () => {
    const place = await makeWorkspace(folder, { ownUser: isRoot(), tools, memory })
    const start = startUnsandboxed.bind(undefined, { tools, limits })
    return createWorkspace({ place, inside: place.outside, limits, tools, start })
  }
}

/** Rooms without bubblewrap, in the runner's folder if their users can get there. */
async function workingPlainRooms(options: RoomOptions): Promise<Rooms> {
  const rooms = plainRooms(options)
  if ((await trialFault(rooms)) === undefined) return rooms
  const folder = isRoot() ? await workspacesElsewhere(options.folder) : options.folder
  const others = plainRooms({ ...options, folder })
  const fault = await trialFault(others)
  return fault === undefined ? others : refuse(`Steps cannot run on this machine: ${fault}`)
}

function refuse(reason: string): Rooms {
  return () => Promise.reject(new Error(reason))
}

const trialMs = 10_000

/** Why steps cannot run in such rooms; undefined when one did. */
async function trialFault(openRoom: Rooms): Promise<string | undefined> {
  try {
    await using room = await openRoom()
    let output = ''
    const { exitCode, reason, detail } = await room.run({
      command: ['/bin/sh', '-c', 'echo works >"$HOME/trial" && cat "$HOME/trial"'],
      env: { PATH: '/usr/bin:/bin', HOME: room.inside.home },
      cwd: room.inside.workspace,
      timeoutMs: trialMs,
      signal: new AbortController().signal,
      onOutput(bytes) {
        output = (output + bytes).slice(0, 1000)
      },
    })
    if (exitCode === 0 && output === 'works\n') return undefined
    return detail || output.trim() || `A trial ended with ${exitCode ?? reason}.`
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

// In the mount namespace of one bubblewrap alone, the room takes the place of one of these.
function findStage(needed: readonly string[]): string {
  const stages = ['/mnt', '/media', '/srv', '/tmp'].filter((path) => existsSync(path))
  const isFree = (stage: string) => !needed.some((path) => `${path}/`.startsWith(`${stage}/`))
  return stages.find(isFree) ?? '/mnt'
}

function isRoot(): boolean {
  return process.getuid?.() === 0
}
