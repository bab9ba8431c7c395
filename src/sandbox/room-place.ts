import { randomInt } from 'node:crypto'
import { chmodSync, chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { newId } from '../base/ids.ts'
import { etcFiles } from './bubblewrap.ts'
import { makePipes, type StepPipes } from './pipes.ts'
import { removeTree } from './removal.ts'
import type { Folders } from './sandbox.ts'
import type { Tools } from './tools.ts'

/** Where a room is on the disk, and whose it is. */
export type RoomPlace = {
  /** The runner's alone, but to pass through. */
  folder: string
  /** The user who owns what is inside; undefined for the runner's own. */
  user: number | undefined
  outside: Folders
  /** What its commands read and write. */
  pipes: StepPipes
}

const roomPrefix = 'svc-room-'

/** Whether a name in the folder of rooms is one of a room. */
export function isRoomName(name: string): boolean {
  return name.startsWith(roomPrefix)
}

/**
 * Makes the folders of a room: at once, for a run waits for them, and to wait for each would take longer than to make
 * all. With `ownUser` they belong to a user whom nobody else has: for root alone.
 */
export async function makeRoom(
  folder: string,
  { ownUser, tools }: { ownUser: boolean; tools: Tools },
): Promise<RoomPlace> {
  const room = join(folder, roomPrefix + newId())
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
  return { folder: room, user, outside, pipes: await makePipes(tools, user) }
}

/** Removes all that steps have made in a room, in which nothing may run any more. */
export async function emptyRoom(place: RoomPlace, tools: Tools): Promise<void> {
  for (const path of foldersOf(place)) {
    await removeTree(path, tools)
    makeFolder(path, place.user)
  }
}

/** Where steps can write. */
function foldersOf({ folder, outside }: Pick<RoomPlace, 'folder' | 'outside'>): string[] {
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
export function isRoomUser(user: number): boolean {
  return user >= usersFrom && user < usersTo
}
