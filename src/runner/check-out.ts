import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import type { Workspace } from '../sandbox/sandbox.ts'
import type { Plan } from '../workflow-engine/plan.ts'

/** The files of a commit could not be put into a workspace. */
class CheckOutError extends Error {
  override readonly name = 'CheckOutFault'
}

// All in one command, for each takes its time. The folder .git is written rather than made by `git init`, so that
// no setting, template or hook of the machine gets in: gitrepository-layout(5).
const script = `
mkdir -p .git/objects .git/refs &&
printf %s "$1" >.git/config &&
printf %s "$2" >.git/HEAD &&
printf %s "$3" >.git/packed-refs &&
printf '%s\\n' "$4" >.git/shallow &&
git index-pack --stdin >/dev/null &&
exec git read-tree --reset -u HEAD`

// Much more than is shown: the message is masked and shortened later, and must hold secrets whole until then.
const outputMaxLength = 256 * 1024

type Options = {
  room: Workspace
  plan: Pick<Plan, 'repository' | 'serverUrl' | 'ref' | 'commit' | 'limits'>
  /** The file with the pack of the commit, or the promise of it. */
  pack: string | Promise<string>
  /** Where git is looked for. */
  path: string
  signal: AbortSignal
}

/**
 * Puts the files of a commit into the workspace of a room, with a repository of that commit alone. Git runs
 * in the room like any step: what the commit holds is as much a stranger's. Rejects as the pack does, or with a
 * CheckOutFault.
 */
export async function checkOut({ room, plan, pack, path, signal }: Options): Promise<void> {
  let said = ''
  const end = await room.run({
    command: ['sh', '-c', script, 'sh', ...Object.values(toRepository(plan))],
    env: {
      PATH: path,
      HOME: room.inside.home,
      LANG: 'C.UTF-8',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_ATTR_NOSYSTEM: '1',
      GIT_TERMINAL_PROMPT: '0',
      GIT_CONFIG_COUNT: '2',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
      // It is gone with the run: nothing has to reach the disk.
      GIT_CONFIG_KEY_1: 'core.fsync',
      GIT_CONFIG_VALUE_1: 'none',
    },
    cwd: room.inside.workspace,
    // To start a command in a room takes as long as to fetch a small pack, so that both are done at once.
    stdin: Readable.from(readPack(pack), { objectMode: false }),
    timeoutMs: plan.limits.stepTimeoutMs,
    signal,
    onOutput: (bytes) => {
      if (said.length < outputMaxLength) said += bytes.toString('utf8')
    },
  })
  if (end.reason === 'exited' && end.exitCode === 0) return
  signal.throwIfAborted()
  await pack
  const why = [end.detail, said.trim()].filter(Boolean).join(' ')
  throw new CheckOutError(
    `The files of ${plan.commit} could not be put into the workspace: ${why || describe(end)}`,
  )
}

async function* readPack(pack: Options['pack']) {
  yield* createReadStream(await pack)
}

function describe({ reason, exitCode }: { reason: string; exitCode: number | null }): string {
  return reason === 'exited' ? `git ended with ${exitCode}.` : `the command was ended: ${reason}.`
}

/**
 * What a repository has that holds one commit, as after actions/checkout: on its branch, or detached at the
 * commit of a tag, with the clone address as its origin.
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
