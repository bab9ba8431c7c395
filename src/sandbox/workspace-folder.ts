import { randomInt } from 'node:crypto'
import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { readlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { ignoreAbsence } from '../base/absence.ts'
import { newId } from '../base/ids.ts'
import { etcFiles } from './bubblewrap.ts'
import {
  isGroupNamed,
  type MemoryController,
  type MemoryGroup,
  makeMemoryGroup,
  openMemoryGroup,
} from './memory-group.ts'
import { makePipes, type StepPipes } from './pipes.ts'
import { removeTree } from './removal.ts'
import type { Folders } from './sandbox.ts'
import type { SandboxTools } from './tools.ts'

/** Where a room is on the disk, and whose it is. */
export type WorkspaceFolder = {
  /** The runner's alone, but to pass through. */
  folder: string
  /** The user who owns what is inside; undefined for the runner's own. */
  user: number | undefined
  outside: Folders
  /** What the kernel counts the memory of its commands by, where that is possible. */
  memoryGroup: MemoryGroup | undefined
  /** What its commands read and write. */
  pipes: StepPipes
}

const roomPrefix = 'svc-room-'

type MemoryLimit = { controller: MemoryController; maxBytes: number }

type PlaceOptions = {
  ownUser: boolean
  tools: SandboxTools
  /** The limit that a control group is to have; undefined for no group. */
  memory: MemoryLimit | undefined
}

/** Whether a name in the folder of rooms is one of a room. */
export function isWorkspaceName(name: string): boolean {
  return name.startsWith(roomPrefix)
}

/**
 * Makes the folders of a room: at once, for a run waits for them, and to wait for each would take longer than to make
 * all. With `ownUser` they belong to a user whom nobody else has: for root alone.
 */
export async function makeWorkspace(
  folder: string,
  { ownUser, tools, memory }: PlaceOptions,
): Promise<WorkspaceFolder> {
  const name = roomPrefix + newId()
  const room = join(folder, name)
  const user = ownUser ? newUser() : undefined
  const inRoom = (name: string) => join(room, name)
  mkdirSync(room, { mode: 0o711 })
  chmodSync(room, 0o711)
  const outside = {
    workspace: inRoom('workspace'),
    home: inRoom('home'),
    temp: inRoom('temp'),
    files: inRoom('files'),
  }
  for (const path of foldersOf({ folder: room, outside })) makeFolder(path, user)
  mkdirSync(inRoom('etc'))
  for (const [name, text] of Object.entries(etcFiles)) {
    writeFileSync(join(room, 'etc', name), text)
    chmodSync(join(room, 'etc', name), 0o644)
  }
  chmodSync(inRoom('etc'), 0o755)
  const pipes = await makePipes(tools, user)
  try {
    const memoryGroup = memory && limitMemory(room, memory)
    return { folder: room, user, outside, memoryGroup, pipes }
  } catch (error) {
    pipes[Symbol.dispose]()
    throw error
  }
}

// Written down first: the start after a runner that was killed must find the group.
function limitMemory(room: string, { controller, maxBytes }: MemoryLimit): MemoryGroup {
  const name = basename(room)
  symlinkSync(join(controller.parent, name), join(room, groupLink))
  return makeMemoryGroup(controller, name, maxBytes)
}

const groupLink = 'memory-group'

/** The control group of a room that a killed runner has left behind, if there is one. */
export async function leftMemoryGroup(room: string): Promise<MemoryGroup | undefined> {
  const path = await readlink(join(room, groupLink)).catch(ignoreAbsence)
  return path !== undefined && isGroupNamed(path, basename(room))
    ? openMemoryGroup(path)
    : undefined
}

/** Removes all that steps have made in a room, in which nothing may run any more. */
export async function emptyWorkspace(place: WorkspaceFolder, tools: SandboxTools): Promise<void> {
  for (const path of foldersOf(place)) {
    await removeTree(path, tools)
    makeFolder(path, place.user)
  }
}

/** Where steps can write. */
function foldersOf({ folder, outside }: Pick<WorkspaceFolder, 'folder' | 'outside'>): string[] {
  return [...Object.values(outside), join(folder, 'shm')]
}

function makeFolder(path: string, user: number | undefined): void {
  mkdirSync(path, { mode: 0o700 })
  giveTo(user, path)
}

function giveTo(user: number | undefined, path: string): void {
  if (user !== undefined) chownSync(path, user, user)
}

// Numbers above those that systems give out: systemd's, Debian's and containers' end below. Two of the same at
// a time are not to be feared among so many.
const usersFrom = 2_000_000_000
const usersTo = 2_147_483_640

function newUser(): number {
  return randomInt(usersFrom, usersTo)
}

/** Whether a user is one of those that rooms get. */
export function isWorkspaceUser(user: number): boolean {
  return user >= usersFrom && user < usersTo
}
