import { isObjectId } from '#base/object-id.ts'
import { findRemote } from '../servers/clone-remotes.ts'
import { CommandError, UsageError } from '../terminal/command-errors.ts'
import { showResult } from '../terminal/display.ts'
import type { ClientOperation, Work } from './operation.ts'

/** `svc changes fetch` */
export const changeFetch: ClientOperation = {
  command: 'changes fetch',
  operations: ['getChange'],
  summary: 'check out a version of a change in a clone',
  arguments: ['repository', 'number', '[version]'],
  options: { '--detach': 'without a branch' },
  notes:
    '\nThe branch is change/NUMBER. If it has commits of yours, or files that you have\nchanged would be overwritten, nothing changes.\n',
  run: runFetch,
}

async function runFetch(work: Work): Promise<void> {
  const { client, input, git } = work
  const [repository, number] = [input.argument('repository'), input.argument('number')]
  const body = await client.json(work.request())
  const { version, versions } = body as {
    version: number
    versions: { version: number; commit: string }[]
  }
  const wanted = input.argument('version') || String(version)
  const commit = versions.find((one) => String(one.version) === wanted)?.commit ?? ''
  if (!isObjectId(commit)) throw new UsageError(`Change ${number} has no version ${wanted}.`)
  const remote = await findRemote(git, { repository, serverUrl: client.url })
  if (remote === undefined) throw failure(`Here is no clone with a remote of ${repository}.`)
  await show(work, [
    'fetch',
    '--quiet',
    '--no-tags',
    '--',
    remote,
    `refs/changes/${number}/${wanted}`,
  ])
  const branch = `change/${number}`
  if (input.flag('detach')) await show(work, ['switch', '--quiet', '--detach', commit])
  else await moveBranch(work, { branch, commit, known: versions.map((one) => one.commit) })
  const place = input.flag('detach') ? 'HEAD' : branch
  const result = { branch: input.flag('detach') ? null : branch, version: Number(wanted), commit }
  showResult(work, result, `${place} is at version ${wanted} of change ${number}, ${commit}.`)
}

/** Makes a branch at a commit and switches to it. One that is at another commit than those known has local work. */
async function moveBranch(
  work: Work,
  { branch, commit, known }: { branch: string; commit: string; known: string[] },
): Promise<void> {
  const { git } = work
  const ref = `refs/heads/${branch}`
  const { out } = await git.run(['rev-parse', '--verify', '--quiet', ref])
  const present = out.trim()
  if (present !== '' && !known.includes(present))
    throw failure(
      `The branch ${branch} has other commits; rename it, or leave it as it is with --detach.`,
    )
  const head = await git.run(['symbolic-ref', '--quiet', 'HEAD'])
  if (head.out.trim() === ref) return show(work, ['reset', '--quiet', '--keep', commit])
  const option = present === '' ? '-c' : '-C'
  await show(work, ['switch', '--quiet', '--no-track', option, branch, commit])
}

async function show({ git }: Work, args: string[]): Promise<void> {
  if ((await git.show(args)) === 0) return
  throw failure(`git ${args[0]} failed; its message is above.`)
}

function failure(message: string): CommandError {
  return new CommandError('failure', message)
}
