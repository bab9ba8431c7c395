import { lstatSync, opendirSync, rmdirSync, unlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { findProgram } from '#base/find-program.ts'
import { runTool } from './launch.ts'

/** The system tools that the sandbox needs, with their Debian packages. */
const packages = {
  sh: 'dash',
  rm: 'coreutils',
  chmod: 'coreutils',
  prlimit: 'util-linux',
  setpriv: 'util-linux',
  setsid: 'util-linux',
  choom: 'util-linux',
  unshare: 'util-linux',
  nsenter: 'util-linux',
  mount: 'mount',
} as const

type Name = keyof typeof packages

/** The paths of the system tools. */
export type SandboxTools = Record<Name, string>

/** Finds the tools on a PATH. Throws an error that names the first missing one. */
export function findTools(path: string): SandboxTools {
  const [missing] = missingTools(path)
  if (missing) {
    throw new Error(
      `The program ${missing.name} is not on the PATH, and steps cannot run without it: ` +
        `apt-get install ${missing.package}`,
    )
  }
  // Each of the names has been found.
  return Object.fromEntries(names().map((name) => [name, findProgram(name, path)])) as SandboxTools
}

/** The tools that are not on a PATH. */
export function missingTools(path: string): { name: string; package: string }[] {
  return names()
    .filter((name) => findProgram(name, path) === undefined)
    .map((name) => ({ name, package: packages[name] }))
}

function names(): Name[] {
  // The table has no other keys.
  return Object.keys(packages) as Name[]
}

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
