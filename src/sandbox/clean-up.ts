import { chmod, lstat, mkdtemp, readdir, readlink, symlink, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '../base/absence.ts'
import { processesOfWorkspace, signal } from './processes.ts'
import { removeTree } from './removal.ts'
import { untilOver } from './running-process.ts'
import type { SandboxTools } from './tools.ts'
import { endProcesses } from './unsandboxed.ts'
import { isWorkspaceName, isWorkspaceUser, leftMemoryGroup } from './workspace-folder.ts'

/**
 * Ends what runs in the rooms that a killed runner has left behind in a folder, and removes them. Only one
 * runner may use the folder.
 */
export async function cleanUp(folder: string, tools: SandboxTools): Promise<void> {
  const link = join(folder, linkName)
  const elsewhere = await readlink(link).catch(ignoreAbsence)
  if (elsewhere !== undefined && (await isOurs(elsewhere))) {
    await clearRooms(elsewhere, tools)
    await removeTree(elsewhere, tools)
  }
  if (elsewhere !== undefined) await unlink(link)
  await clearRooms(folder, tools)
}

const linkName = 'rooms-elsewhere'
const elsewherePrefix = '/var/tmp/svc-rooms-'

/**
 * A folder for rooms that every user can pass through, for rooms of users of their own: the runner's own
 * folder may be beneath one that they cannot. A link in the runner's folder leads there, for clearLeftovers.
 */
export async function workspacesElsewhere(folder: string): Promise<string> {
  const elsewhere = await mkdtemp(elsewherePrefix)
  await symlink(elsewhere, join(folder, linkName))
  await chmod(elsewhere, 0o711)
  return elsewhere
}

// Others may make what they like in /var/tmp.
async function isOurs(path: string): Promise<boolean> {
  const stat = await lstat(path).catch(ignoreAbsence)
  const isThere = stat?.isDirectory() === true && stat.uid === process.getuid?.()
  return (
    isThere && path.startsWith(elsewherePrefix) && !path.slice(elsewherePrefix.length).includes('/')
  )
}

async function clearRooms(folder: string, tools: SandboxTools): Promise<void> {
  for (const name of (await readdir(folder)).filter(isWorkspaceName)) {
    const room = join(folder, name)
    const { uid } = await lstat(join(room, 'workspace')).catch(() => ({ uid: -1 }))
    const user = isWorkspaceUser(uid) ? uid : undefined
    await untilOver(async () => {
      // bubblewrap itself can be of another user than its steps for a moment.
      const strays = processesOfWorkspace(room)
      for (const { pid } of strays) signal(pid, 'SIGKILL')
      return strays.length + (await endProcesses({ folder: room, user }, tools)) === 0
    })
    await (await leftMemoryGroup(room))?.remove()
    await removeTree(room, tools)
  }
}
