import { randomInt } from 'node:crypto'
import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { readlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import { newId } from '#base/ids.ts'
import { etcFiles } from './bubblewrap.ts'
import {
  isGroupNamed,
  type MemoryController,
  type MemoryGroup,
  makeMemoryGroup,
  openMemoryGroup,
} from './memory/memory-group.ts'
import { makePipes, type StepPipes } from './pipes.ts'
import type { Folders } from './sandbox.ts'
import { removeTree, type SandboxTools } from './tools.ts'

/** The directory of a workspace on disk, and its owner. */
export type WorkspaceFolder = {
  /** Owned by the runner; others can only search it. */
  folder: string
  /** The owner of its contents; undefined for the runner's user. */
  user: number | undefined
  outside: Folders
  /** Undefined where control groups are not available. */
  memoryGroup: MemoryGroup | undefined
  pipes: StepPipes
}

const namePrefix = 'svc-workspace-'

type MemoryLimit = { controller: MemoryController; maxBytes: number }

type CreateOptions = {
  ownUser: boolean
  tools: SandboxTools
  /** The limit of the control group; undefined for no group. */
  memory: MemoryLimit | undefined
}

export function isWorkspaceName(name: string): boolean {
  return name.startsWith(namePrefix)
}

/**
 * Creates the directories of a workspace, synchronously because that is faster for so few. With `ownUser` they belong
 * to a new user id, which requires root.
 */
export async function createWorkspaceFolder(
  folder: string,
  { ownUser, tools, memory }: CreateOptions,
): Promise<WorkspaceFolder> {
  const name = namePrefix + newId()
  const path = join(folder, name)
  const user = ownUser ? newUser() : undefined
  const below = (name: string) => join(path, name)
  mkdirSync(path, { mode: 0o711 })
  chmodSync(path, 0o711)
  const outside = {
    workspace: below('workspace'),
    home: below('home'),
    temp: below('temp'),
    files: below('files'),
  }
  for (const folder of writableFolders({ folder: path, outside })) makeFolder(folder, user)
  mkdirSync(below('etc'))
  for (const [name, text] of Object.entries(etcFiles)) {
    writeFileSync(join(path, 'etc', name), text)
    chmodSync(join(path, 'etc', name), 0o644)
  }
  chmodSync(below('etc'), 0o755)
  const pipes = await makePipes(tools, user)
  try {
    const memoryGroup = memory && limitMemory(path, memory)
    return { folder: path, user, outside, memoryGroup, pipes }
  } catch (error) {
    pipes[Symbol.dispose]()
    throw error
  }
}

// The link is created first, so that clean-up after a crash finds the group.
function limitMemory(path: string, { controller, maxBytes }: MemoryLimit): MemoryGroup {
  const name = basename(path)
  symlinkSync(join(controller.parent, name), join(path, groupLinkName))
  return makeMemoryGroup(controller, name, maxBytes)
}

const groupLinkName = 'memory-group'

/** The control group of a workspace that a killed runner has left behind. */
export async function findMemoryGroup(path: string): Promise<MemoryGroup | undefined> {
  const group = await readlink(join(path, groupLinkName)).catch(ignoreAbsence)
  return group !== undefined && isGroupNamed(group, basename(path))
    ? openMemoryGroup(group)
    : undefined
}

/** Removes everything that steps have created. No process of the workspace may run. */
export async function emptyWorkspaceFolder(
  directory: WorkspaceFolder,
  tools: SandboxTools,
): Promise<void> {
  for (const path of writableFolders(directory)) {
    await removeTree(path, tools)
    makeFolder(path, directory.user)
  }
}

/** The directories that steps can write to. */
function writableFolders({
  folder,
  outside,
}: Pick<WorkspaceFolder, 'folder' | 'outside'>): string[] {
  return [...Object.values(outside), join(folder, 'shm')]
}

function makeFolder(path: string, user: number | undefined): void {
  mkdirSync(path, { mode: 0o700 })
  changeOwner(user, path)
}

function changeOwner(user: number | undefined, path: string): void {
  if (user !== undefined) chownSync(path, user, user)
}

// Above the ids that systemd, Debian and containers assign. Collisions are unlikely in so large a range.
const minUser = 2_000_000_000
const userEnd = 2_147_483_640

function newUser(): number {
  return randomInt(minUser, userEnd)
}

export function isWorkspaceUser(user: number): boolean {
  return user >= minUser && user < userEnd
}
