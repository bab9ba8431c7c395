import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { formatOf, type ObjectFormat } from '#base/object-id.ts'
import { orAborted } from '#base/timeouts.ts'
import type { Workspace } from '../sandbox/sandbox.ts'
import { writeFresh } from '../sandbox/workspace-files.ts'
import { credentialsFile, quoteGitValue } from '../workflow-engine/check-out-step.ts'
import type { Plan } from '../workflow-engine/plan.ts'
import type { Checkout } from '../workflow-engine/run-state.ts'
import type { SourcePack } from './run-source.ts'

class CheckOutError extends Error {
  override readonly name = 'CheckOutError'
}

// One command, because each start takes time. The script writes .git itself instead of calling `git init`, so that no
// setting, template or hook of the machine has an effect: gitrepository-layout(5).
const script = `
mkdir -p .git/objects .git/refs &&
printf %s "$1" >.git/config &&
printf %s "$2" >.git/HEAD &&
printf %s "$3" >.git/packed-refs &&
printf '%s\\n' "$4" >.git/shallow &&
git index-pack --stdin >/dev/null &&
exec git read-tree --reset -u HEAD`

// Much more than is shown, because secrets must be whole until the message is masked and shortened.
const maxOutputLength = 256 * 1024

type Options = {
  workspace: Workspace
  plan: Pick<Plan, 'repository' | 'serverUrl' | 'ref' | 'commit' | 'limits'>
  /** The file with the commit. */
  source: Promise<SourcePack>
  /** PATH for finding git. */
  path: string
  signal: AbortSignal
}

/**
 * Checks out a commit in a new workspace, in a repository with that commit only. Rejects as the source does, or with a
 * CheckOutError.
 */
export async function checkOut({ workspace, plan, source, path, signal }: Options): Promise<void> {
  const { ref } = plan
  // A tag may be annotated, which the source knows. For a branch, fetching a small pack and starting a command, which
  // takes as long, happen concurrently.
  const tag = branchOf(ref) === undefined ? await orAborted(source, signal) : undefined
  await runCheckout({
    workspace,
    script,
    args: Object.values(
      toRepository({ ...plan, object: tag?.header.refs[ref], files: workspace.inside.files }),
    ),
    source,
    commit: plan.commit,
    limits: plan.limits,
    path,
    signal,
  })
}

type CheckoutCommand = Pick<Options, 'workspace' | 'source' | 'path' | 'signal'> & {
  /** For `sh`; its standard input is the pack. */
  script: string
  args: string[]
  commit: string
  limits: Plan['limits']
}

/** Runs a script that checks out a commit. Git runs in the sandbox like any step, because the commit is untrusted. */
async function runCheckout(command: CheckoutCommand): Promise<void> {
  const { workspace, script, args, source, commit, limits, path, signal } = command
  let output = ''
  const end = await workspace.run({
    command: ['sh', '-c', script, 'sh', ...args],
    env: {
      PATH: path,
      HOME: workspace.inside.home,
      LANG: 'C.UTF-8',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_ATTR_NOSYSTEM: '1',
      GIT_TERMINAL_PROMPT: '0',
      GIT_CONFIG_COUNT: '2',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
      // The workspace is removed after the run, so it need not be durable.
      GIT_CONFIG_KEY_1: 'core.fsync',
      GIT_CONFIG_VALUE_1: 'none',
    },
    cwd: workspace.inside.workspace,
    stdin: Readable.from(readPack(source), { objectMode: false }),
    timeoutMs: limits.stepTimeoutMs,
    signal,
    onOutput: (bytes) => {
      if (output.length < maxOutputLength) output += bytes.toString('utf8')
    },
  })
  if (end.reason === 'exited' && end.exitCode === 0) return
  signal.throwIfAborted()
  await source
  const why = [end.detail, output.trim()].filter(Boolean).join(' ')
  throw new CheckOutError(`The commit ${commit} could not be checked out: ${why || describe(end)}`)
}

async function* readPack(source: Promise<SourcePack>) {
  const { path, packStart } = await source
  yield* createReadStream(path, { start: packStart })
}

function describe({ reason, exitCode }: { reason: string; exitCode: number | null }): string {
  return reason === 'exited'
    ? `git exited with ${exitCode}.`
    : `the command was stopped: ${reason}.`
}

type Origin = Pick<Plan, 'repository' | 'serverUrl' | 'ref'> & {
  /** The directory of the workspace's own files, as steps see it. */
  files: string
}

type SingleCommit = Origin &
  Pick<Plan, 'commit'> & {
    /** The object of the ref; the commit by default. */
    object?: string | undefined
  }

/** The files of a repository with one commit, as after actions/checkout: on its branch, or detached for a tag. */
export function toRepository({ commit, object = commit, ...origin }: SingleCommit) {
  const { ref } = origin
  const branch = branchOf(ref)
  const refs = branch === undefined ? [ref] : [ref, `refs/remotes/origin/${branch}`]
  return {
    config: toConfig(origin, formatOf(commit)),
    head: branch === undefined ? `${commit}\n` : `ref: ${ref}\n`,
    packedRefs: refs.map((name) => `${object} ${name}\n`).join(''),
    commit,
  }
}

/** The configuration of a repository with the clone URL as `origin`, which is the upstream of the branch, if `ref` is one. */
function toConfig({ repository, serverUrl, ref, files }: Origin, format: ObjectFormat): string {
  const url = `${serverUrl}/repos/${repository.name}.git`
  const branch = branchOf(ref)
  const upstream = [
    `[branch ${quoteGitValue(branch ?? '')}]`,
    '\tremote = origin',
    `\tmerge = ${quoteGitValue(ref)}`,
  ]
  return [
    '[core]',
    '\trepositoryformatversion = 1',
    '\tfilemode = true',
    '\tbare = false',
    '\tlogallrefupdates = true',
    '[extensions]',
    `\tobjectformat = ${format}`,
    '[gc]',
    '\tauto = 0',
    '[remote "origin"]',
    `\turl = ${quoteGitValue(url)}`,
    '\tfetch = +refs/heads/*:refs/remotes/origin/*',
    ...(branch === undefined ? [] : upstream),
    // Git ignores a file that does not exist.
    '[include]',
    `\tpath = ${quoteGitValue(`${files}/${credentialsFile}`)}`,
    '',
  ].join('\n')
}

/** The name of a branch by its full name; undefined for any other ref. */
function branchOf(ref: string): string | undefined {
  return /^refs\/heads\/(.+)$/s.exec(ref)?.[1]
}

const enter = 'mkdir -p -- "$1" && cd -- "$1"'

// Like actions/checkout, empties a folder that is not a repository, and removes the branches of one that is.
const prepare = `
{ [ -d .git ] || find . -mindepth 1 -maxdepth 1 -exec rm -rf -- {} +; } &&
rm -rf .git/refs .git/index.lock && mkdir -p .git/objects .git/refs &&
printf %s "$3" >.git/config && printf %s "$4" >.git/HEAD`

// The lists may be longer than an argument. A file without lines would make a repository shallow.
const addCommits = `
cat "$2/checkout-refs" >.git/packed-refs &&
if [ -s "$2/checkout-shallow" ]; then cat "$2/checkout-shallow" >.git/shallow; else rm -f .git/shallow; fi &&
git index-pack --stdin >/dev/null`

const replaceFiles = 'git read-tree --reset -u HEAD'
const removeOthers = 'git clean -ffdxq'

const scripts: Record<Checkout['files'], string> = {
  keep: [enter, addCommits].join(' && '),
  add: [enter, prepare, addCommits, replaceFiles].join(' && '),
  replace: [enter, prepare, addCommits, replaceFiles, removeOthers].join(' && '),
}

type AgainOptions = Pick<Options, 'workspace' | 'source' | 'path' | 'signal'> & {
  plan: Pick<Plan, 'repository' | 'serverUrl' | 'limits'>
  checkout: Checkout
}

/**
 * Checks out what a step asks for, in a workspace where steps have run. Returns the commit and its ref. Rejects as the
 * source does, or with a CheckOutError.
 */
export async function checkOutAgain({
  checkout: { folder, files },
  plan,
  source,
  ...command
}: AgainOptions): Promise<{ commit: string; ref: string }> {
  const { outside, inside } = command.workspace
  const { header } = await orAborted(source, command.signal)
  const { commit, ref, shallow } = header
  writeFresh(`${outside.files}/checkout-refs`, toPackedRefs(header))
  writeFresh(`${outside.files}/checkout-shallow`, shallow.map((id) => `${id}\n`).join(''))
  await runCheckout({
    ...command,
    script: scripts[files],
    args: [
      folder === '' ? '.' : folder,
      inside.files,
      toConfig({ ...plan, ref, files: inside.files }, formatOf(commit)),
      branchOf(ref) === undefined ? `${commit}\n` : `ref: ${ref}\n`,
    ],
    source,
    commit,
    limits: plan.limits,
  })
  return { commit, ref }
}

/** The refs of the server as a fetch of actions/checkout leaves them, and the branch of the commit. */
export function toPackedRefs({ commit, ref, refs }: SourcePack['header']): string {
  const all = new Map(Object.entries(refs).map(([name, id]) => [toTracked(name), id]))
  if (branchOf(ref) !== undefined) all.set(ref, commit).set(toTracked(ref), commit)
  else if (ref !== '' && !all.has(ref)) all.set(ref, commit)
  return [...all].map(([name, id]) => `${id} ${name}\n`).join('')
}

function toTracked(ref: string): string {
  return ref.replace(/^refs\/heads\//, 'refs/remotes/origin/')
}
