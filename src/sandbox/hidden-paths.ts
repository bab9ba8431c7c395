import { realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

// A page, the least that there is.
const emptyBytes = 4096

/**
 * Arguments of bubblewrap that cover what steps must not see, where it lies beneath what they can read. Paths
 * that are not there hide nothing. `isOther` says that bubblewrap runs as a user who owns none of them.
 */
export function hidingMounts(
  hiddenPaths: readonly string[],
  { shown, isOther }: { shown: readonly string[]; isOther: boolean },
): string[] {
  const places = hiddenPaths.flatMap((path) => {
    const real = realPathOf(path)
    if (real === undefined) return []
    return shown.flatMap((root) => {
      const realRoot = realPathOf(root)
      if (realRoot === undefined || !isWithin(real, realRoot)) return []
      const covered = isOther ? (firstClosed(real, realRoot) ?? real) : real
      return [{ covered, inside: root + covered.slice(realRoot.length) }]
    })
  })
  const insides = new Map(places.map(({ covered, inside }) => [inside, covered]))
  // What is above comes first and hides what is below, of which there is no place to cover any more.
  const above = [...insides.keys()].filter(
    (path) => ![...insides.keys()].some((other) => other !== path && isWithin(path, other)),
  )
  return above.flatMap((inside) => cover(inside, insides.get(inside) ?? inside))
}

/** A folder as arguments of bubblewrap: empty, closed and not to be written. */
export function emptyFolder(path: string): string[] {
  return ['--size', `${emptyBytes}`, '--perms', '0700', '--tmpfs', path, '--remount-ro', path]
}

/** Throws when what steps are to read shows what is hidden from them, or is a part of it. */
export function assertHidden(
  hiddenPaths: readonly string[],
  readOnlyPaths: readonly string[],
): void {
  for (const path of readOnlyPaths) {
    const real = realPathOf(path)
    const isShown = (hidden: string | undefined) =>
      real !== undefined &&
      hidden !== undefined &&
      (isWithin(hidden, real) || isWithin(real, hidden))
    if (!hiddenPaths.map(realPathOf).some(isShown)) continue
    throw new Error(
      `What steps are to read cannot be shown: ${path} would let them read the data directory, the keys or the folder of a runner. Name other paths in SVC_SANDBOX_PATHS.`,
    )
  }
}

function cover(inside: string, covered: string): string[] {
  if (statSync(covered).isDirectory()) return emptyFolder(inside)
  // Devices do not open there.
  return ['--ro-bind', '/dev/null', inside]
}

/** The outermost folder between a root and a path that other users cannot pass: there is no way to what is in it. */
function firstClosed(path: string, root: string): string | undefined {
  const parent = path === root ? undefined : firstClosed(dirname(path), root)
  if (parent !== undefined) return parent
  const stat = statSync(path)
  return stat.isDirectory() && (stat.mode & 0o001) === 0 ? path : undefined
}

function realPathOf(path: string): string | undefined {
  try {
    return realpathSync(path)
  } catch {
    // It is not there, or this user cannot get there, and so no step can.
    return undefined
  }
}

function isWithin(path: string, folder: string): boolean {
  return `${path}/`.startsWith(folder === '/' ? '/' : `${folder}/`)
}
