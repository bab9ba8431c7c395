import { lstatSync, opendirSync, rmdirSync, unlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { runTool } from './launch.ts'
import type { SandboxTools } from './tools.ts'

// To start a program holds a runner up for longer than to remove so much by itself.
const fewEntries = 200

/**
 * Removes a folder with all that is in it, whatever its modes and however deep. Nothing may still write
 * there. rm(1) and chmod(1) follow no links on the way down, and know no longest path.
 */
export async function removeTree(path: string, tools: SandboxTools): Promise<void> {
  if (removeFew(path)) return
  const remove = () => runTool([tools.rm, '-rf', '--one-file-system', '--', path])
  if ((await remove()).exitCode === 0) return
  // Folders that their owner may not enter: only root needs no right to.
  await runTool([tools.chmod, '-R', 'u+rwX', '--', path])
  const { exitCode, complaint } = await remove()
  if (exitCode === 0) return
  const shown = complaint.replaceAll(`${dirname(path)}/`, '')
  throw new Error(`A room could not be removed: ${shown}`)
}

/** Removes a folder that holds little and nothing odd; false for any other, of which something may remain. */
function removeFew(path: string): boolean {
  let left = fewEntries

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
    // Names that are not UTF-8 are not found by what Node makes of them, among other reasons.
    return false
  }
}
