import { existsSync } from 'node:fs'
import { chmod, lstat, mkdtemp, readdir, readlink, symlink, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import { findProgram } from '#base/find-program.ts'
import { closeInheritedDescriptors } from '#base/inherited-descriptors.ts'
import type { ListedHosts } from '#base/outbound/listed-hosts.ts'
import type { HostAccess } from '../step-network/proxy-session.ts'
import { insideFolders } from './bubblewrap.ts'
import { startBubblewrapped } from './bubblewrapped.ts'
import { type Choice, chooseIsolation, describeIsolation, type SandboxMode } from './isolation.ts'
import { createJobNetworks, type JobNetwork } from './job-network.ts'
import { type MemoryTrial, tryMemory } from './memory/memory-controller.ts'
import type { MemoryController } from './memory/memory-group.ts'
import { assertHidden, findNode, hidingMounts, insideNode, systemMounts } from './mounts.ts'
import { pollUntil, processesOfWorkspace, signal } from './processes.ts'
import type { Isolation, Sandbox, SandboxLimits, Workspace } from './sandbox.ts'
import { findTools, removeTree, type SandboxTools } from './tools.ts'
import { endProcesses, startUnsandboxed } from './unsandboxed.ts'
import { createWorkspace } from './workspace.ts'
import {
  createWorkspaceFolder,
  findMemoryGroup,
  isWorkspaceName,
  isWorkspaceUser,
} from './workspace-folder.ts'

export type SandboxOptions = {
  /** A directory on disk, used by this runner only, for the workspaces. */
  folder: string
  /** Directories of programs, in the format of PATH. */
  path: string
  network: 'none' | 'full'
  /** Hosts that steps may reach through a proxy, if the network is `none`. */
  hosts?: ListedHosts | undefined
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
  const openNetwork = createJobNetworks(options)
  const { isolation, choice } = await probeIsolation({ ...options, openNetwork }, memory)
  const withController = { ...options, controller: memory.controller, openNetwork }
  const hosts = isolation.network === 'hosts' ? (options.hosts?.rules ?? []) : []
  const own = findNode({ isOther: isRoot() })
  const node = choice === 'bubblewrap' ? own && { ...own, path: insideNode } : own
  const open = () => {
    if (choice === 'bubblewrap') return bubblewrapOpener(withController)
    if (choice === 'refused') return rejectWith(isolation.description)
    return workingUnsandboxedOpener(withController)
  }
  return { isolation, hosts, node, openWorkspace: await open() }
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
    const openNetwork = createJobNetworks(options)
    return await probeIsolation({ ...options, folder, openNetwork }, memory)
  } finally {
    await removeTree(folder, tools)
  }
}

type ProbeOptions = SandboxOptions & Pick<OpenerOptions, 'openNetwork'>

async function probeIsolation(requested: ProbeOptions, memory: MemoryTrial): Promise<Probed> {
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
  const isProxied = options.hosts !== undefined && options.network === 'none'
  const proxyFault =
    isProxied && fault === undefined
      ? await findFault(bubblewrapOpener(options), { rules: [], log: async () => {} })
      : undefined
  const network: Isolation['network'] =
    isProxied && proxyFault === undefined ? 'hosts' : options.network
  const found = { ...options, network, proxyFault, memory, fault, isRoot: isRoot() }
  return { isolation: describeIsolation(found), choice: chooseIsolation(found), fault }
}

type OpenWorkspace = () => Promise<Workspace>
type OpenerOptions = Omit<SandboxOptions, 'mode' | 'hosts'> & {
  controller: MemoryController | undefined
  openNetwork: () => JobNetwork
}

function bubblewrapOpener(options: OpenerOptions): OpenWorkspace {
  const { folder, path, network, limits, readOnlyPaths, hiddenPaths, controller, openNetwork } =
    options
  const memory = controller && { controller, maxBytes: limits.memoryMaxBytes }
  const tools = findTools(path)
  const mounts = { none: systemMounts('none'), full: systemMounts('full') }
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
    const { shown } = mounts[network]
    const hiding = hidingMounts(hiddenPaths, { shown, isOther: isRoot() })
    const systemFor = (kind: keyof typeof mounts) => [...mounts[kind].args, ...hiding]
    const setup = { tools, bwrap, network, limits, systemFor, readOnlyPaths, node, mountPoint }
    const directory = await createWorkspaceFolder(folder, { ownUser: isRoot(), tools, memory })
    const start = startBubblewrapped.bind(undefined, setup)
    const more = { limits, tools, network: openNetwork(), start }
    return createWorkspace({ directory, inside: insideFolders, ...more })
  }
}

function unsandboxedOpener({ folder, path, limits, controller }: OpenerOptions): OpenWorkspace {
  const memory = controller && { controller, maxBytes: limits.memoryMaxBytes }
  const tools = findTools(path)
  return async () => {
    const directory = await createWorkspaceFolder(folder, { ownUser: isRoot(), tools, memory })
    const start = startUnsandboxed.bind(undefined, { tools, limits })
    const more = { limits, tools, network: undefined, start }
    return createWorkspace({ directory, inside: directory.outside, ...more })
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

/**
 * Runs a trial step: why it failed, or undefined. On a busy machine one may fail that does not fail again; steps must not
 * be without a sandbox for that.
 */
async function findFault(
  openWorkspace: OpenWorkspace,
  network?: HostAccess,
): Promise<string | undefined> {
  const fault = await tryOnce(openWorkspace, network)
  return fault === undefined ? undefined : await tryOnce(openWorkspace, network)
}

async function tryOnce(
  openWorkspace: OpenWorkspace,
  network?: HostAccess,
): Promise<string | undefined> {
  try {
    await using workspace = await openWorkspace()
    let output = ''
    const { exitCode, reason, detail } = await workspace.run({
      command: ['/bin/sh', '-c', 'echo works >"$HOME/trial" && cat "$HOME/trial"'],
      env: { PATH: '/usr/bin:/bin', HOME: workspace.inside.home },
      cwd: workspace.inside.workspace,
      ...(network && { network }),
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

/** Removes the workspaces of a killed runner and kills their processes. No other runner may use the directory. */
async function cleanUp(folder: string, tools: SandboxTools): Promise<void> {
  const link = join(folder, linkName)
  const elsewhere = await readlink(link).catch(ignoreAbsence)
  if (elsewhere !== undefined && (await isOurs(elsewhere))) {
    await clearWorkspaces(elsewhere, tools)
    await removeTree(elsewhere, tools)
  }
  if (elsewhere !== undefined) await unlink(link)
  await clearWorkspaces(folder, tools)
}

const linkName = 'workspaces-elsewhere'
const elsewherePrefix = '/var/tmp/svc-workspaces-'

/**
 * Creates a directory for workspaces that every user can reach, for when the runner's own directory is below a private
 * one. A link in the runner's directory leads there, for `cleanUp`.
 */
async function createFolderElsewhere(folder: string): Promise<string> {
  const elsewhere = await mkdtemp(elsewherePrefix)
  await symlink(elsewhere, join(folder, linkName))
  await chmod(elsewhere, 0o711)
  return elsewhere
}

// Any user can create files in /var/tmp.
async function isOurs(path: string): Promise<boolean> {
  const stat = await lstat(path).catch(ignoreAbsence)
  const isThere = stat?.isDirectory() === true && stat.uid === process.getuid?.()
  return (
    isThere && path.startsWith(elsewherePrefix) && !path.slice(elsewherePrefix.length).includes('/')
  )
}

async function clearWorkspaces(folder: string, tools: SandboxTools): Promise<void> {
  for (const name of (await readdir(folder)).filter(isWorkspaceName)) {
    const directory = join(folder, name)
    const { uid } = await lstat(join(directory, 'workspace')).catch(() => ({ uid: -1 }))
    const user = isWorkspaceUser(uid) ? uid : undefined
    await pollUntil(async () => {
      // bubblewrap may briefly run as another user than its steps.
      const strays = processesOfWorkspace(directory)
      for (const { pid } of strays) signal(pid, 'SIGKILL')
      return strays.length + (await endProcesses({ folder: directory, user }, tools)) === 0
    })
    await (await findMemoryGroup(directory))?.remove()
    await removeTree(directory, tools)
  }
}
