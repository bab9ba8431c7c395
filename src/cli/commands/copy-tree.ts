import { copyFile, lchown, lstat, mkdir, readlink, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Workspace } from '#actions/sandbox/sandbox.ts'
import { ignoreAbsence } from '#base/absence.ts'

/**
 * Copies files and links, by their paths relative to `from`, into a workspace in which no step has run yet, and
 * gives them its owner. Skips other kinds of files, and files deleted in the meantime.
 */
export async function copyTree(
  from: string,
  paths: readonly string[],
  target: Workspace,
): Promise<void> {
  const { workspace } = target.outside
  const owner = await lstat(workspace)
  const own = (path: string) => lchown(path, owner.uid, owner.gid)
  const created = new Set(['.'])

  async function makeFolder(path: string): Promise<void> {
    if (created.has(path)) return
    created.add(path)
    await makeFolder(dirname(path))
    await mkdir(join(workspace, path), { recursive: true })
    await own(join(workspace, path))
  }

  for (const path of paths) {
    const source = join(from, path)
    const copy = join(workspace, path)
    const stat = await lstat(source).catch(ignoreAbsence)
    if (!stat?.isFile() && !stat?.isSymbolicLink()) continue
    await makeFolder(dirname(path))
    if (stat.isFile()) await copyFile(source, copy)
    else await symlink(await readlink(source), copy)
    await own(copy)
  }
}
