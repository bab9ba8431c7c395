import { existsSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findProgram } from '../base/find-program.ts'
import { closeInheritedDescriptors } from '../base/inherited-descriptors.ts'
import { insideFolders } from './bubblewrap.ts'
import { startBubblewrapped } from './bubblewrapped.ts'
import { cleanUp, createFolderElsewhere } from './clean-up.ts'
import { assertHidden, hidingMounts } from './hidden-paths.ts'
import { type Choice, chooseIsolation, describeIsolation, type SandboxMode } from './isolation.ts'
import type { MemoryController } from './memory-group.ts'
import { type MemoryTrial, tryMemory } from './memory-trial.ts'
import { removeTree } from './remove-tree.ts'
import { findNode, insideNode } from './runner-node.ts'
import type { Isolation, Sandbox, SandboxLimits, Workspace } from './sandbox.ts'
import { systemMounts } from './system-mounts.ts'
import { findTools } from './tools.ts'
import { startUnsandboxed } from './unsandboxed.ts'
import { createWorkspace } from './workspace.ts'
import { createWorkspaceFolder } from './workspace-folder.ts'

export type SandboxOptions = {
  /** A directory on disk, used by this runner only, for the workspaces. */
  folder: string
  /** Directories of programs, in the format of PATH. */
  path: string
  network: 'none' | 'full'
  /** With `auto` and `require`, steps run in bubblewrap if it works; otherwise see `chooseIsolation`. */
  mode: SandboxMode
  /** Whether `auto` may run steps as the current user, because they are that user's own. */
  ownUserAllowed?: boolean
  limits: SandboxLimits
  /** Additional paths of the machine that steps can read. */
  readOnlyPaths: readonly string[]
  /** Paths of the machine that are hidden from steps, even within readable paths. */
  hiddenPaths: readonly string[]
}

/**
 * Probes the isolation that this machine supports, and removes what an earlier runner has left in the directory. Throws
 * when the directory or a system tool is missing, and when readable paths overlap with hidden ones.
 */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  assertHidden(options.hiddenPaths, options.readOnlyPaths)
  const tools = findTools(options.path)
  await cleanUp(options.folder, tools)
  const memory = await tryMemory({
    tools,
    maxBytes: options.limits.memoryMaxBytes,
    canMoveProcesses: true,
  })
  const { isolation, choice } = await probeIsolation(options, memory)
  const withController = { ...options, controller: memory.controller }
  const own = findNode({ isOther: isRoot() })
  if (choice === 'bubblewrap') {
    const node = own && { ...own, path: insideNode }
    return { isolation, node, openWorkspace: bubblewrapOpener(withController) }
  }
  if (choice === 'refused')
    return { isolation, node: own, openWorkspace: rejectWith(isolation.description) }
  return { isolation, node: own, openWorkspace: await workingUnsandboxedOpener(withController) }
}

/** The isolation of steps; `fault` says why bubblewrap does not work. */
type Probed = { isolation: Isolation; choice: Choice; fault: string | undefined }

/** Probes the isolation like `openSandbox`, and leaves nothing behind. */
export async function probeSandbox(options: Omit<SandboxOptions, 'folder'>): Promise<Probed> {
  assertHidden(options.hiddenPaths, options.readOnlyPaths)
  const tools = findTools(options.path)
  const folder = await mkdtemp(join(tmpdir(), 'svc-sandbox-'))
  try {
    const { memoryMaxBytes: maxBytes } = options.limits
    const memory = await tryMemory({ tools, maxBytes, canMoveProcesses: false })
    return await probeIsolation({ ...options, folder }, memory)
  } finally {
    await removeTree(folder, tools)
  }
}

async function probeIsolation(requested: SandboxOptions, memory: MemoryTrial): Promise<Probed> {
  closeInheritedDescriptors()
  const options = { ...requested, controller: memory.controller }
  const fault =
    options.mode === 'none' ? 'SVC_SANDBOX is none' : await findFault(bubblewrapOpener(options))
  if (options.mode !== 'none' && fault !== undefined && options.readOnlyPaths.length > 0) {
    // A wrong setting must not silently disable the sandbox.
    const without = await findFault(bubblewrapOpener({ ...options, readOnlyPaths: [] }))
    if (without === undefined) {
      throw new Error(`A path of SVC_SANDBOX_PATHS or SVC_TOOLS cannot be mounted: ${fault}`)
    }
  }
  const found = { ...options, memory, fault, isRoot: isRoot() }
  return { isolation: describeIsolation(found), choice: chooseIsolation(found), fault }
}

type OpenWorkspace = () => Promise<Workspace>
type OpenerOptions = Omit<SandboxOptions, 'mode'> & { controller: MemoryController | undefined }

function bubblewrapOpener(options: OpenerOptions): OpenWorkspace {
  const { folder, path, network, limits, readOnlyPaths, hiddenPaths, controller } = options
  const memory = controller && { controller, maxBytes: limits.memoryMaxBytes }
  const tools = findTools(path)
  const { args, shown } = systemMounts(network)
  const node = findNode({ isOther: isRoot() })?.path
  const mountPoint = findMountPoint([
    folder,
    ...readOnlyPaths,
    ...(node === undefined ? [] : [node]),
  ])
  return async () => {
    const bwrap = findProgram('bwrap', path)
    if (!bwrap) throw new Error('bubblewrap is not installed: apt-get install bubblewrap')
    // Computed for each workspace, because some paths are created later.
    const hiding = hidingMounts(hiddenPaths, { shown, isOther: isRoot() })
    const system = [...args, ...hiding]
    const setup = { tools, bwrap, network, limits, system, readOnlyPaths, node, mountPoint }
    const directory = await createWorkspaceFolder(folder, { ownUser: isRoot(), tools, memory })
    const start = startBubblewrapped.bind(undefined, setup)
    return createWorkspace({ directory, inside: insideFolders, limits, tools, start })
  }
}

function unsandboxedOpener({ folder, path, limits, controller }: OpenerOptions): OpenWorkspace {
  const memory = controller && { controller, maxBytes: limits.memoryMaxBytes }
  const tools = findTools(path)
  return async () => {
    const directory = await createWorkspaceFolder(folder, { ownUser: isRoot(), tools, memory })
    const start = startUnsandboxed.bind(undefined, { tools, limits })
    return createWorkspace({ directory, inside: directory.outside, limits, tools, start })
  }
}

/** Workspaces without bubblewrap, in the runner's directory if their users can reach it. */
async function workingUnsandboxedOpener(options: OpenerOptions): Promise<OpenWorkspace> {
  const open = unsandboxedOpener(options)
  if ((await findFault(open)) === undefined) return open
  const folder = isRoot() ? await createFolderElsewhere(options.folder) : options.folder
  const openElsewhere = unsandboxedOpener({ ...options, folder })
  const fault = await findFault(openElsewhere)
  return fault === undefined
    ? openElsewhere
    : rejectWith(`Steps cannot run on this machine: ${fault}`)
}

function rejectWith(reason: string): OpenWorkspace {
  return () => Promise.reject(new Error(reason))
}

const trialTimeoutMs = 10_000

/** Runs a trial step: why it failed, or undefined. */
async function findFault(openWorkspace: OpenWorkspace): Promise<string | undefined> {
  try {
    await using workspace = await openWorkspace()
    let output = ''
    const { exitCode, reason, detail } = await workspace.run({
      command: ['/bin/sh', '-c', 'echo works >"$HOME/trial" && cat "$HOME/trial"'],
      env: { PATH: '/usr/bin:/bin', HOME: workspace.inside.home },
      cwd: workspace.inside.workspace,
      timeoutMs: trialTimeoutMs,
      signal: new AbortController().signal,
      onOutput(bytes) {
        output = (output + bytes).slice(0, 1000)
      },
    })
    if (exitCode === 0 && output === 'works\n') return undefined
    return detail || output.trim() || `A trial step ended with ${exitCode ?? reason}.`
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

// The workspace is mounted over one of these, in the mount namespace of bubblewrap only.
function findMountPoint(needed: readonly string[]): string {
  const candidates = ['/mnt', '/media', '/srv', '/tmp'].filter((path) => existsSync(path))
  const isFree = (mountPoint: string) =>
    !needed.some((path) => `${path}/`.startsWith(`${mountPoint}/`))
  return candidates.find(isFree) ?? '/mnt'
}

function isRoot(): boolean {
  return process.getuid?.() === 0
}
