import { chmod, lstat, mkdtemp, readdir, readlink, symlink, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import { processesOfWorkspace, signal } from './processes.ts'
import { removeTree } from './remove-tree.ts'
import { pollUntil } from './running-process.ts'
import type { SandboxTools } from './tools.ts'
import { endProcesses } from './unsandboxed.ts'
import { findMemoryGroup, isWorkspaceName, isWorkspaceUser } from './workspace-folder.ts'

/** Removes the workspaces of a killed runner and kills their processes. No other runner may use the directory. */
export async function cleanUp(folder: string, tools: SandboxTools): Promise<void> {
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
export async function createFolderElsewhere(folder: string): Promise<string> {
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
