import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { printable } from '#base/format.ts'
import type { ObjectFormat } from '#base/object-id.ts'
import { orAborted } from '#base/timeouts.ts'
import { packBytes } from '../objects/packs.ts'
import { gitCommands } from '../process/commands.ts'
import type { Git } from '../process/git-process.ts'
import type { Limits } from '../process/preforked-process.ts'
import { isRefName, refNameFault } from '../refs/ref-name.ts'
import { branchPrefix, chooseDefaultBranch, listBranches, listRefs } from '../refs/refs.ts'
import {
  importFailed,
  importTooLarge,
  refsMaxBytes,
  requireUtf8,
  toImportFault,
  tooManyRefs,
} from './import-error.ts'

/** The source of a fetch, in git's terms. */
export type MirrorSource = {
  /** An address or a path without credentials. */
  address: string
  /** The only protocol that may be used, as in git's setting protocol.<name>.allow. */
  protocol: 'git' | 'http' | 'ssh'
  config?: Record<string, string>
  variables?: Record<string, string>
}

/** Context of an import: `signal` aborts it, and `limits` apply to each of its processes. */
export type Mirroring = {
  git: Git
  owner: string
  limits: Limits
  signal: AbortSignal
  /** Called with each line of git's progress. */
  onProgress: (line: string) => void
}

const startMaxLength = 65_536
const maxRemoteLines = 5
const shownMaxLength = 200
// Each line's timestamp and prefix are about as long as a ref.
const traceMaxBytes = 2 * refsMaxBytes
const tracePrefixMaxLength = 80

/**
 * Fetches every ref of a source, with all reachable objects, into an empty repository. Objects are checked like those of
 * a push. Refs with names that are not allowed are omitted. Nothing is synced to disk.
 */
export async function fetchMirror(
  source: MirrorSource,
  directory: string,
  mirroring: Mirroring,
): Promise<void> {
  await runFetching(gitCommands.mirror(directory, source.address), source, mirroring, directory)
  // The fetch wrote a file for each ref.
  await mirroring.git.run(gitCommands.packRefs(directory), { config: { 'core.fsync': 'none' } })
  await dropRefusedRefs(directory, mirroring.git)
}

/** Reads the object format of a source, and the ref that its HEAD points to; undefined when HEAD is detached, or unborn. */
export async function readRemoteSource(
  source: MirrorSource,
  mirroring: Mirroring,
): Promise<{ objectFormat: ObjectFormat; head: string | undefined }> {
  const command = gitCommands.listHead(source.address)
  const { output, trace } = await runFetching(command, source, mirroring)
  const [, target] = /^ref: (.*)\tHEAD$/m.exec(output) ?? []
  // Git silently drops an invalid target; only its trace shows it.
  const objectFormat = /[< ]object-format=sha256\b/.test(trace) ? 'sha256' : 'sha1'
  return { objectFormat, head: target ?? symbolicHeadIn(trace) }
}

/** Throws an `import_failed` for an invalid target of HEAD. */
export function requireHead(name: string | undefined): void {
  if (name === undefined || isRefName(name)) return
  const shown = printable(name).slice(0, shownMaxLength)
  throw importFailed(`The HEAD of the source is "${shown}", which is not a valid ref name.`)
}

/** Points HEAD at a branch. Throws an `import_failed` for an invalid name. */
export async function setHead(directory: string, wanted: string | undefined): Promise<void> {
  requireHead(wanted)
  const branches = await listBranches(directory)
  // A clone checks out nothing when HEAD points to a missing branch, so another branch is chosen if there is one.
  const isUsable =
    wanted?.startsWith(branchPrefix) &&
    refNameFault(wanted) === undefined &&
    (branches.length === 0 || branches.includes(wanted.slice(branchPrefix.length)))
  const name = isUsable ? wanted : branchPrefix + (chooseDefaultBranch(branches) ?? 'main')
  await writeFile(join(directory, 'HEAD'), `ref: ${name}\n`)
}

async function runFetching(
  command: readonly string[],
  { protocol, config, variables }: MirrorSource,
  { git, owner, limits, signal, onProgress }: Mirroring,
  directory?: string,
): Promise<{ output: string; trace: string }> {
  signal.throwIfAborted()
  const remoteLines: string[] = []
  await using child = await git.start(command, {
    owner,
    limits,
    variables: { ...variables, GIT_TRACE_PACKET: '3' },
    config: {
      [`protocol.${protocol}.allow`]: 'always',
      // The import is synced as a whole when it is complete.
      'core.fsync': 'none',
      ...config,
    },
    onProgress(line) {
      const isMessage = line.startsWith('remote: ') && !/\d%|, done\.$|^remote: Total /.test(line)
      if (isMessage) remoteLines.push(line)
      if (remoteLines.length > maxRemoteLines) remoteLines.shift()
      onProgress(line)
    },
  })
  child.stdin.end()
  const outcome = Promise.all([child.ended, startOf(child.stdout), readTrace(child.channel)])
  const [ended, output, trace] = await orAborted(outcome, signal)
  if (ended.exitCode !== 0 || isFunny(ended.errorOutput)) {
    // A process that exceeds its file size limit ends without a message: signal(7), SIGXFSZ.
    const bytes = directory === undefined ? 0 : await packBytes(directory)
    if (bytes >= limits.fileMaxBytes) throw importTooLarge(limits.fileMaxBytes)
    throw toImportFault(ended, remoteLines)
  }
  return { output, trace }
}

// Git only warns about a ref with an invalid name, and skips it.
function isFunny(errorOutput: string): boolean {
  return /[Ii]gnoring funny ref/.test(errorOutput)
}

async function dropRefusedRefs(directory: string, git: Git): Promise<void> {
  const names = await listRefs(directory)
  for (const name of names) requireUtf8(name)
  const refused = names.filter((name) => refNameFault(name) !== undefined)
  if (refused.length === 0) return
  const input = refused.map((name) => `delete ${name}\n`).join('')
  await git.run(gitCommands.updateRefs(directory), { input, config: { 'core.fsync': 'none' } })
}

// In protocol 0 and 1 it is a capability, in 2 an attribute of the ref: gitprotocol-pack(5), gitprotocol-v2(5).
function symbolicHeadIn(trace: string): string | undefined {
  const [, target] =
    /symref=HEAD:(\S*)/.exec(trace) ?? / HEAD symref-target:(.*)$/m.exec(trace) ?? []
  return target
}

/** Reads the start of a stream and drops the rest. HEAD comes first among the refs. */
async function startOf(stream: Readable): Promise<string> {
  let text = ''
  for await (const chunk of stream.setEncoding('utf8')) {
    if (text.length < startMaxLength) text += chunk
  }
  return text
}

/**
 * Reads the start of git's trace of packets: git(1), GIT_TRACE_PACKET. Throws an `import_failed` when the source lists
 * refs without end: git would hold them all in memory, with any transport.
 */
async function readTrace(stream: Readable): Promise<string> {
  let start = ''
  let rest = ''
  let bytes = 0
  for await (const chunk of stream.setEncoding('utf8')) {
    if (start.length < startMaxLength) start += chunk
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (isReceived(line)) bytes += line.length
    if (bytes > traceMaxBytes) throw tooManyRefs()
  }
  return start
}

// Lines that git itself receives, not those of its helpers, of packs or of progress.
function isReceived(line: string): boolean {
  return / (fetch|ls-remote)< /.test(line.slice(0, tracePrefixMaxLength))
}
