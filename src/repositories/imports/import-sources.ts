import { lstat, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isAdmin } from '#access/may.ts'
import { limitKeyOf, type Principal } from '#access/principal.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import { Problem } from '#base/problem.ts'
import type { OpenedSource } from '#git/import/import-refs.ts'
import { copyLocalSource, explainPath } from '#git/import/local-source.ts'
import { openRemoteSource } from '#git/import/remote-source.ts'
import type { Git } from '#git/process/git-process.ts'
import type { LocalSource, Source } from './source-address.ts'

/** The sources of imports: checks access and prepares them for git. */
export type ImportSources = {
  /** Throws `source_forbidden` for a local source that the principal may not read, without accessing it. */
  require: (principal: Principal, source: Source) => void
  /** Prepares a source for fetching. Throws a Problem for one that is unusable or forbidden. */
  open: (principal: Principal, source: Source, opening: Opening) => Promise<OpenedSource>
}

type Dependencies = {
  git: Git
  dataDir: string
  /** Folders from which all users may import. */
  localRoots: string[]
  /** A file with keys of SSH hosts: ssh(1), known_hosts. */
  trustedHosts?: string | undefined
  /** Resolves hosts and checks that connections to them are allowed; an agent connects only to allowed addresses. */
  outbound: Outbound
}

type Opening = {
  /** An unused path for the copy of a local source. */
  scratch: string
  maxBytes: number
  signal: AbortSignal
  /** Called when data of the source arrives. */
  onArrival: () => void
}

export function createImportSources({
  git,
  dataDir,
  localRoots,
  trustedHosts,
  outbound,
}: Dependencies): ImportSources {
  function mayRead(principal: Principal, path: string, home: string): boolean {
    if (isWithin(path, dataDir) || isWithin(path, home)) return false
    return isAdmin(principal) || localRoots.some((root) => isWithin(path, root))
  }

  async function openLocal(
    principal: Principal,
    { path }: LocalSource,
    { scratch, maxBytes, signal, onArrival }: Opening,
  ): Promise<OpenedSource> {
    const home = await realpath(dataDir)
    const roots = await Promise.all(localRoots.map((root) => realpath(root).catch(() => root)))
    const isOpen = (real: string) =>
      !isWithin(real, home) && (isAdmin(principal) || roots.some((root) => isWithin(real, root)))
    const real = await realpath(path).catch(async (error) => {
      if (isAdmin(principal) || (await isMissingWithin(path, isOpen))) return explainPath(error)
      throw forbidden()
    })
    if (!isOpen(real)) throw forbidden()
    const { from, lfs } = await copyLocalSource(git, real, {
      isAllowed: async (repository) =>
        isOpen(await repository.realPath()) && !(await repository.isIn(home)),
      forbidden,
      scratch,
      maxBytes,
      signal,
      onArrival,
    })
    return {
      from,
      lfs,
      fault: () => undefined,
      [Symbol.asyncDispose]: async () => lfs?.[Symbol.asyncDispose](),
    }
  }

  return {
    require(principal, source) {
      if (source.kind === 'local' && !mayRead(principal, source.path, dataDir)) throw forbidden()
    },

    open(principal, source, opening) {
      if (source.kind === 'local') return openLocal(principal, source, opening)
      const { signal, onArrival } = opening
      const knownHosts = join(dataDir, 'known_hosts')
      return openRemoteSource(source, {
        outbound: outbound.of(limitKeyOf(principal)),
        knownHosts,
        trustedHosts,
        signal,
        onArrival,
      })
    },
  }
}

/**
 * Whether a missing path lies in a folder that the caller may access. The existence of other paths must not be revealed,
 * not even through the caller's own symbolic links.
 */
async function isMissingWithin(path: string, isOpen: (real: string) => boolean): Promise<boolean> {
  const parent = dirname(path)
  const real = await realpath(parent).catch(() => undefined)
  if (real === undefined) return parent !== path && isMissingWithin(parent, isOpen)
  const isThere = await lstat(path).then(
    () => true,
    () => false,
  )
  return isOpen(real) && !isThere
}

/** Whether a path is a folder or in it; both are absolute and without `..`. */
function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`)
}

function forbidden(): Problem {
  return new Problem(
    'source_forbidden',
    'This path of the server may not be imported from. Admins may import from anywhere but the data ' +
      'directory; others from the folders that SVC_IMPORT_LOCAL_ROOTS names.',
  )
}
