import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import type { RunnerNode } from './sandbox.ts'

// One page, the minimum.
const emptyBytes = 4096

/**
 * Arguments of bubblewrap that cover hidden paths below shown ones. Missing paths are ignored. With `isOther`,
 * bubblewrap runs as a user who owns none of them.
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
  // Only outermost paths: covering one removes the mount points below it.
  const above = [...insides.keys()].filter(
    (path) => ![...insides.keys()].some((other) => other !== path && isWithin(path, other)),
  )
  return above.flatMap((inside) => cover(inside, insides.get(inside) ?? inside))
}

/** Arguments of bubblewrap for an empty, private, read-only directory. */
function emptyFolder(path: string): string[] {
  return ['--size', `${emptyBytes}`, '--perms', '0700', '--tmpfs', path, '--remount-ro', path]
}

/** Throws when a readable path contains a hidden one, or is within one. */
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
      `SVC_SANDBOX_PATHS and SVC_TOOLS must not contain ${path}: steps could read the data directory, the keys or the directory of a runner.`,
    )
  }
}

function cover(inside: string, covered: string): string[] {
  if (statSync(covered).isDirectory()) return emptyFolder(inside)
  // Bind mounts of bubblewrap are nodev, so that even /dev/null cannot be opened.
  return ['--ro-bind', '/dev/null', inside]
}

/** The outermost directory between a root and a path that other users cannot search. */
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
    // Missing, or out of reach for this user and so for its steps.
    return undefined
  }
}

function isWithin(path: string, folder: string): boolean {
  return `${path}/`.startsWith(folder === '/' ? '/' : `${folder}/`)
}

// The files in /etc that programs need; others reveal details of the machine and its users.
const etcFiles =
  /^(ld\.so\..*|alternatives|ssl|ca-certificates|ca-certificates\.conf|pki|nsswitch\.conf|localtime|timezone|os-release|debian_version|mime\.types|services|protocols|terminfo|perl|python3.*|java.*|fonts|bash\.bashrc|profile|inputrc|gitconfig)$/
const etcNetworkFiles = /^(resolv\.conf|host\.conf|gai\.conf)$/
const topFolders = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32']

/** The paths of the machine that steps can read, and the arguments of bubblewrap that mount them. */
export function systemMounts(network: 'none' | 'full'): { args: string[]; shown: string[] } {
  const inEtc = readdirSync('/etc')
    .filter((name) => etcFiles.test(name) || (network === 'full' && etcNetworkFiles.test(name)))
    .map((name) => `/etc/${name}`)
  const folders = ['/usr', ...(existsSync('/opt') ? ['/opt'] : [])]
  const args = [
    ...folders.flatMap((path) => readOnly(path)),
    ...topFolders.flatMap(sameAsOutside),
    // Some are dangling links.
    ...inEtc.flatMap((path) => readOnly(path, '--ro-bind-try')),
    // Private keys of the machine's certificates, which a group of its users may read.
    ...(existsSync('/etc/ssl/private') ? emptyFolder('/etc/ssl/private') : []),
  ]
  return { args, shown: [...folders, ...topFolders.map((name) => `/${name}`), ...inEtc] }
}

function readOnly(path: string, option = '--ro-bind'): string[] {
  return [option, path, path]
}

// On most current systems these are links into /usr.
function sameAsOutside(name: string): string[] {
  const path = join('/', name)
  try {
    return lstatSync(path).isSymbolicLink()
      ? ['--symlink', readlinkSync(path), path]
      : readOnly(path)
  } catch (error) {
    return ignoreAbsence(error) ?? []
  }
}

/** Where steps in bubblewrap see the Node.js of the runner. */
export const insideNode = '/svc-node'

/** The Node.js of this process; undefined when `isOther` and other users cannot execute it. */
export function findNode({ isOther }: { isOther: boolean }): RunnerNode | undefined {
  const path = realpathSync(process.execPath)
  if (isOther && firstClosed(path, '/') !== undefined) return undefined
  return { path, version: process.versions.node }
}
