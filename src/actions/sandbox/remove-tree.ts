import { lstatSync, opendirSync, rmdirSync, unlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { runTool } from './launch.ts'
import type { SandboxTools } from './tools.ts'

// Removing this many entries in the process is faster than starting a program.
const maxSmallTreeEntries = 200

/**
 * Removes a directory tree of any depth and with any modes. Nothing may still write there. rm(1) and chmod(1) follow
 * no links and have no limit on path lengths.
 */
export async function removeTree(path: string, tools: SandboxTools): Promise<void> {
  if (removeSmallTree(path)) return
  const remove = () => runTool([tools.rm, '-rf', '--one-file-system', '--', path])
  if ((await remove()).exitCode === 0) return
  // A directory may lack its owner's permissions, which only root does not need.
  await runTool([tools.chmod, '-R', 'u+rwX', '--', path])
  const { exitCode, errorOutput } = await remove()
  if (exitCode === 0) return
  const shown = errorOutput.replaceAll(`${dirname(path)}/`, '')
  throw new Error(`A workspace could not be removed: ${shown}`)
}

/** Removes a small tree without special cases; returns false for others, of which a part may remain. */
function removeSmallTree(path: string): boolean {
  let left = maxSmallTreeEntries

  function removeFolder(folder: string, device: number): boolean {
    if (lstatSync(folder).dev !== device) return false
    using entries = opendirSync(folder)
    for (let entry = entries.readSync(); entry !== null; entry = entries.readSync()) {
      if (--left < 0) return false
      const inside = join(folder, entry.name)
      if (!entry.isDirectory()) unlinkSync(inside)
      else if (!removeFolder(inside, device)) return false
    }
    rmdirSync(folder)
    return true
  }

  try {
    return removeFolder(path, lstatSync(path).dev)
  } catch {
    // For instance, Node cannot find names that are not UTF-8.
    return false
  }
}
