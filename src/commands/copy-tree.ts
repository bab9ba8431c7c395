import { copyFile, lchown, lstat, mkdir, readlink, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ignoreAbsence } from '../base/absence.ts'
import type { Workspace } from '../sandbox/sandbox.ts'

/**
 * Copies files of a folder, by their paths from it, into the workspace of a room in which nothing has run yet; they
 * are then the room's own. What is neither a file nor a link is left out, and so is what has gone meanwhile.
 */
export async function copyTree(
  from: string,
  paths: readonly string[],
  room: Workspace,
): Promise<void> {
  const { workspace } = room.outside
  const owner = await lstat(workspace)
  const own = (path: string) => lchown(path, owner.uid, owner.gid)
  const made = new Set(['.'])

  async function makeFolder(path: string): Promise<void> {
    if (made.has(path)) return
    made.add(path)
    await makeFolder(dirname(path))
    await mkdir(join(workspace, path), { recursive: true })
    await own(join(workspace, path))
  }

  for (const path of paths) {
    const source = join(from, path)
    const target = join(workspace, path)
    const stat = await lstat(source).catch(ignoreAbsence)
    if (!stat?.isFile() && !stat?.isSymbolicLink()) continue
    await makeFolder(dirname(path))
    if (stat.isFile()) await copyFile(source, target)
    else await symlink(await readlink(source), target)
    await own(target)
  }
}
