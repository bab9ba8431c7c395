import { lstat, realpath } from 'node:fs/promises'
import type { Agent } from 'node:http'
import { dirname, join } from 'node:path'
import { isAdmin } from '../access/may.ts'
import type { Principal } from '../access/principal.ts'
import { printable } from '../base/format.ts'
import { Problem } from '../base/problem.ts'
import { openHttpRelay } from '../git/import/http-relay.ts'
import { importFailed } from '../git/import/import-error.ts'
import { copyRepository, readConfig, readHead } from '../git/import/local-copy.ts'
import { type MirrorSource, requireHead } from '../git/import/mirror.ts'
import { OpenedFolder } from '../git/import/opened-folder.ts'
import { toSshSource } from '../git/import/ssh-source.ts'
import { gitCommands } from '../git/process/commands.ts'
import type { Git } from '../git/process/git-process.ts'
import type { LocalSource, RemoteSource, Source } from './source-address.ts'

export type ImportSources = ReturnType<typeof createImportSources>

type Dependencies = {
  git: Git
  dataDir: string
  /** Folders from which all users may import. */
  localRoots: string[]
  /** Resolves hosts and checks that connections to them are allowed; an agent connects only to allowed addresses. */
  outbound: {
    resolve: (host: string) => Promise<[string, ...string[]]>
    agentFor: (url: URL) => Promise<Agent>
  }
}

type Opening = {
  /** An unused path for the copy of a local source. */
  scratch: string
  maxBytes: number
  signal: AbortSignal
  /** Called when data of the source arrives. */
  onArrival: () => void
}

/** A private copy of a local source, and the full name of the ref in its HEAD. */
type Copy = { copy: string; head: string | undefined }

/** A source that git can fetch from. */
export type OpenedSource = AsyncDisposable & {
  from: { remote: MirrorSource } | Copy
  /** A more precise error than git's, if the source could not be read. */
  fault: () => unknown
}

/** The sources of imports: checks access and prepares them for git. */
export function createImportSources({ git, dataDir, localRoots, outbound }: Dependencies) {
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
    await using folder = await OpenedFolder.open(real).catch(explainPath)
    await using repository = await repositoryIn(folder)
    // Checked on the opened folder: the path may have been replaced since it was resolved.
    if (!isOpen(await repository.realPath()) || (await repository.isIn(home))) throw forbidden()
    const head = await readHead(repository)
    requireHead(head)
    const copying = copyRepository(repository, scratch, { maxBytes, signal, onProgress: onArrival })
    const checking = readConfig(repository).then(refuseFormats)
    // Both are awaited, so that the copy has ended before the caller removes it.
    for (const work of await Promise.allSettled([checking, copying])) {
      if (work.status === 'rejected') throw work.reason
    }
    return {
      from: { copy: scratch, head },
      fault: () => undefined,
      async [Symbol.asyncDispose]() {},
    }
  }

  async function refuseFormats(config: string): Promise<void> {
    const listed = await git.run(gitCommands.listConfig(), { input: config }).catch(() => {
      throw importFailed('The configuration of the source cannot be read.')
    })
    const settings = new Map(
      listed.split('\0').map((entry) => entry.split('\n', 2) as [string, string | undefined]),
    )
    const of = (name: string) => settings.get(name)?.toLowerCase()
    if (of('extensions.objectformat') === 'sha256') {
      throw importFailed('The source uses the object format SHA-256. Only SHA-1 is supported.')
    }
    const refStorage = of('extensions.refstorage') ?? 'files'
    if (refStorage !== 'files') {
      throw importFailed(
        `The source keeps its refs as "${printable(refStorage)}"; push it here with git instead.`,
      )
    }
    const isPartial = [...settings.keys()].some((name) =>
      /^extensions\.partialclone$|^remote\..*\.(promisor|partialclonefilter)$/i.test(name),
    )
    if (isPartial) {
      throw importFailed('The source is a partial clone; fetch all of its objects first.')
    }
  }

  async function openHttp(
    { protocol, host, port, path, username, password }: RemoteSource,
    { signal, onArrival }: Opening,
  ): Promise<OpenedSource> {
    const url = new URL(`${protocol}://${bracketed(host)}${port ? `:${port}` : ''}${path}`)
    const pair = `${username?.reveal() ?? ''}:${password?.reveal() ?? ''}`
    const authorization =
      username || password ? `Basic ${Buffer.from(pair).toString('base64')}` : undefined
    const { agentFor } = outbound
    // Fails before the relay is started if the policy forbids the host.
    await outbound.resolve(host)
    const relay = await openHttpRelay({
      url,
      authorization,
      agentFor,
      signal,
      onProgress: onArrival,
    })
    return {
      from: { remote: { address: relay.address, protocol: 'http', config: relayed } },
      fault: relay.fault,
      [Symbol.asyncDispose]: () => relay[Symbol.asyncDispose](),
    }
  }

  async function openRemote(remote: RemoteSource, opening: Opening): Promise<OpenedSource> {
    if (remote.protocol === 'http' || remote.protocol === 'https') return openHttp(remote, opening)
    const { host, port, path } = remote
    const [address] = await outbound.resolve(host)
    const source: MirrorSource =
      remote.protocol === 'ssh'
        ? toSshSource(remote, { address, knownHosts: join(dataDir, 'known_hosts') })
        : {
            address: `git://${bracketed(address)}${port ? `:${port}` : ''}${path}`,
            protocol: 'git',
            // The virtual host at that address: git-daemon(1).
            variables: {
              GIT_OVERRIDE_VIRTUAL_HOST: bracketed(host) + (port ? `:${port}` : ''),
            },
          }
    return {
      from: { remote: source },
      fault: () => undefined,
      async [Symbol.asyncDispose]() {},
    }
  }

  return {
    /** Throws `source_forbidden` for a local source that the principal may not read, without accessing it. */
    require(principal: Principal, source: Source): void {
      if (source.kind === 'local' && !mayRead(principal, source.path, dataDir)) throw forbidden()
    },

    /** Prepares a source for fetching. Throws a Problem for one that is unusable or forbidden. */
    open: (principal: Principal, source: Source, opening: Opening): Promise<OpenedSource> =>
      source.kind === 'local' ? openLocal(principal, source, opening) : openRemote(source, opening),
  }
}

// Between git and the relay. Git sends requests beyond its buffer chunked, which HTTP/1.0 does not support; this size
// holds half a million refs.
const relayed = { 'http.followRedirects': 'false', 'http.proxy': '', 'http.postBuffer': '32m' }

async function repositoryIn(folder: OpenedFolder): Promise<OpenedFolder> {
  const found = await Promise.all(['HEAD', 'objects', 'refs'].map((part) => folder.find(part)))
  if (found.every((part) => part !== undefined)) return folder
  const inner = await folder.find('.git')
  if (inner?.isFile()) {
    throw importFailed(
      'The source is a worktree or a submodule; import the repository that it belongs to.',
    )
  }
  if (inner?.isSymbolicLink()) {
    throw importFailed('".git" in the source is a symbolic link; import what it leads to.')
  }
  const repository = inner?.isDirectory()
    ? await folder.folder('.git').catch(explainPath)
    : undefined
  if (!repository) throw importFailed('There is no Git repository at the source.')
  return repository
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

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

function forbidden(): Problem {
  return new Problem(
    'source_forbidden',
    'This path of the server may not be imported from. Admins may import from anywhere but the data ' +
      'directory; others from the folders that SVC_IMPORT_LOCAL_ROOTS names.',
  )
}

function explainPath(error: unknown): never {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT') throw importFailed('There is nothing at this path of the server.')
  if (code === 'ENOTDIR' || code === 'ELOOP') {
    throw importFailed('The source is no folder. A bundle is cloned first, and its clone pushed.')
  }
  if (code === 'EACCES' || code === 'EPERM') {
    throw importFailed('The server may not read this path.')
  }
  if (code === 'ENAMETOOLONG') throw importFailed('The path has a part that is too long.')
  throw error
}
