import { findProgram } from '#base/find-program.ts'

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
