import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import type { Workspace } from '../sandbox/sandbox.ts'
import type { Plan } from '../workflow-engine/plan.ts'

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
  /** The path of the commit's pack. */
  pack: string | Promise<string>
  /** PATH for finding git. */
  path: string
  signal: AbortSignal
}

/**
 * Checks out a commit in a workspace, in a repository with that commit only. Git runs in the sandbox like any step,
 * because the commit is untrusted. Rejects as the pack does, or with a CheckOutError.
 */
export async function checkOut({ workspace, plan, pack, path, signal }: Options): Promise<void> {
  let output = ''
  const end = await workspace.run({
    command: ['sh', '-c', script, 'sh', ...Object.values(toRepository(plan))],
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
    // Starting a command takes as long as fetching a small pack, so both happen concurrently.
    stdin: Readable.from(readPack(pack), { objectMode: false }),
    timeoutMs: plan.limits.stepTimeoutMs,
    signal,
    onOutput: (bytes) => {
      if (output.length < maxOutputLength) output += bytes.toString('utf8')
    },
  })
  if (end.reason === 'exited' && end.exitCode === 0) return
  signal.throwIfAborted()
  await pack
  const why = [end.detail, output.trim()].filter(Boolean).join(' ')
  throw new CheckOutError(
    `The commit ${plan.commit} could not be checked out: ${why || describe(end)}`,
  )
}

async function* readPack(pack: Options['pack']) {
  yield* createReadStream(await pack)
}

function describe({ reason, exitCode }: { reason: string; exitCode: number | null }): string {
  return reason === 'exited'
    ? `git exited with ${exitCode}.`
    : `the command was stopped: ${reason}.`
}

/**
 * The files of a repository with one commit, as after actions/checkout: on its branch, or detached for a tag, with the
 * clone URL as `origin`.
 */
export function toRepository({ repository, serverUrl, ref, commit }: Options['plan']) {
  const url = `${serverUrl}/repos/${repository.name}.git`
  const branch = /^refs\/heads\/(.+)$/s.exec(ref)?.[1]
  const upstream = [
    `[branch ${quoted(branch ?? '')}]`,
    '\tremote = origin',
    `\tmerge = ${quoted(ref)}`,
  ]
  const config = [
    '[core]',
    '\trepositoryformatversion = 0',
    '\tfilemode = true',
    '\tbare = false',
    '\tlogallrefupdates = true',
    '[gc]',
    '\tauto = 0',
    '[remote "origin"]',
    `\turl = ${quoted(url)}`,
    '\tfetch = +refs/heads/*:refs/remotes/origin/*',
    ...(branch === undefined ? [] : upstream),
    '',
  ]
  const refs = branch === undefined ? [ref] : [ref, `refs/remotes/origin/${branch}`]
  return {
    config: config.join('\n'),
    head: branch === undefined ? `${commit}\n` : `ref: ${ref}\n`,
    packedRefs: refs.map((name) => `${commit} ${name}\n`).join(''),
    commit,
  }
}

// git-config(1), Syntax.
function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`
}
