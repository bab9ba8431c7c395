import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { printable } from '../../base/format.ts'
import { orAborted } from '../../base/timeouts.ts'
import { gitCommands } from '../process/commands.ts'
import type { Git } from '../process/git-process.ts'
import type { Limits } from '../process/preforked-process.ts'
import { branchPrefix, chooseDefaultBranch, listBranches } from '../refs/default-branch.ts'
import { isRefName, refNameFault } from '../refs/ref-name.ts'
import { listRefs, packBytes } from '../refs/refs.ts'
import {
  importFailed,
  importTooLarge,
  refsMaxBytes,
  requireUtf8,
  toImportFault,
  tooManyRefs,
} from './import-error.ts'

/** Where a repository is fetched from, as git is told. */
export type MirrorSource = {
  /** An address or a path without credentials. */
  address: string
  /** The only protocol that may be used, as in git's setting protocol.<name>.allow. */
  protocol: 'git' | 'http' | 'ssh'
  config?: Record<string, string>
  variables?: Record<string, string>
}

/** What a mirror is made with: `signal` ends it, and `limits` bound each of its processes. */
export type Mirroring = {
  git: Git
  owner: string
  limits: Limits
  signal: AbortSignal
  /** Called with each line of git's progress. */
  onProgress: (line: string) => void
}

const startMaxLength = 65_536
const saidLines = 5
const shownMaxLength = 200
// Time and source of a line take about as much as a ref.
const traceMaxBytes = 2 * refsMaxBytes
const tracePrefixMaxLength = 80

/**
 * Fetches every ref of a source with all that it reaches into an empty repository, each object checked like
 * those of a push. Refs of refused names are left out. Nothing of it is synced to the disk.
 */
export async function fetchMirror(
  source: MirrorSource,
  directory: string,
  mirroring: Mirroring,
): Promise<void> {
  await runFetching(gitCommands.mirror(directory, source.address), source, mirroring, directory)
  // The refs came as a file each.
  await mirroring.git.run(gitCommands.packRefs(directory), { config: { 'core.fsync': 'none' } })
  await dropRefusedRefs(directory, mirroring.git)
}

/** The full name that the HEAD of a source stands for; undefined when it stands for a commit, or for nothing. */
export async function readSourceHead(
  source: MirrorSource,
  mirroring: Mirroring,
): Promise<string | undefined> {
  const command = gitCommands.listHead(source.address)
  const { output, trace } = await runFetching(command, source, mirroring)
  const [, target] = /^ref: (.*)\tHEAD$/m.exec(output) ?? []
  // Git drops a symbolic ref that is no ref name without a word; its trace is where it can be seen.
  return target ?? symbolicHeadIn(trace)
}

/** Throws an `import_failed` for what is no ref name that a HEAD could stand for. */
export function requireHead(name: string | undefined): void {
  if (name === undefined || isRefName(name)) return
  const shown = printable(name).slice(0, shownMaxLength)
  throw importFailed(`The HEAD of the source is "${shown}", which is no ref name.`)
}

/** Makes HEAD stand for a branch. Throws an `import_failed` for a name that is none. */
export async function setHead(directory: string, wanted: string | undefined): Promise<void> {
  requireHead(wanted)
  const branches = await listBranches(directory)
  // A HEAD that stands for nothing cannot be cloned, so another branch takes its place if there is one.
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
  const said: string[] = []
  await using child = await git.start(command, {
    owner,
    limits,
    variables: { ...variables, GIT_TRACE_PACKET: '3' },
    config: {
      [`protocol.${protocol}.allow`]: 'always',
      // All of it is synced at once when it is complete.
      'core.fsync': 'none',
      ...config,
    },
    onProgress(line) {
      const isSaid = line.startsWith('remote: ') && !/\d%|, done\.$|^remote: Total /.test(line)
      if (isSaid) said.push(line)
      if (said.length > saidLines) said.shift()
      onProgress(line)
    },
  })
  child.stdin.end()
  const outcome = Promise.all([child.ended, startOf(child.stdout), readTrace(child.channel)])
  const [ended, output, trace] = await orAborted(outcome, signal)
  if (ended.exitCode !== 0 || isFunny(ended.complaint)) {
    // Who comes to the limit of a process's files is ended without a word: signal(7), SIGXFSZ.
    const bytes = directory === undefined ? 0 : await packBytes(directory)
    if (bytes >= limits.fileMaxBytes) throw importTooLarge(limits.fileMaxBytes)
    throw toImportFault(ended, said)
  }
  return { output, trace }
}

// Git only warns of a ref whose name is none, and leaves it out.
function isFunny(complaint: string): boolean {
  return /[Ii]gnoring funny ref/.test(complaint)
}

async function dropRefusedRefs(directory: string, git: Git): Promise<void> {
  const names = await listRefs(directory)
  for (const name of names) requireUtf8(name)
  const refused = names.filter((name) => refNameFault(name) !== undefined)
  if (refused.length === 0) return
  const input = refused.map((name) => `delete ${name}\n`).join('')
  await git.run(gitCommands.updateRefs(directory), { input, config: { 'core.fsync': 'none' } })
}

// Protocol 0 and 1 name it among the capabilities, 2 with the ref: gitprotocol-pack(5), gitprotocol-v2(5).
function symbolicHeadIn(trace: string): string | undefined {
  const [, target] =
    /symref=HEAD:(\S*)/.exec(trace) ?? / HEAD symref-target:(.*)$/m.exec(trace) ?? []
  return target
}

/** The start of what is read from a stream; the rest is read and dropped. HEAD comes first among all refs. */
async function startOf(stream: Readable): Promise<string> {
  let text = ''
  for await (const chunk of stream.setEncoding('utf8')) {
    if (text.length < startMaxLength) text += chunk
  }
  return text
}

/**
 * The start of git's trace of packets, git(1), GIT_TRACE_PACKET. Throws an `import_failed` when the source lists refs
 * without end: git would take them all into memory, whichever transport they come by.
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

// What git itself receives, as opposed to what its helpers do, and to packs and progress.
function isReceived(line: string): boolean {
  return / (fetch|ls-remote)< /.test(line.slice(0, tracePrefixMaxLength))
}
