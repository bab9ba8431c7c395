import { git } from './git.ts'
import type { Answer, Client } from './service.ts'
import { type Ended, type SshUser, toEnded } from './ssh-user.ts'

/**
 * What comes of an action: it is done; the repository does not exist for who asks; a permission is
 * missing; the branch is protected; or there is no such token or key.
 */
export type Outcome = 'done' | 'absent' | 'forbidden' | 'protected' | 'unknown'

export const actions = [
  'list',
  'info',
  'fetch',
  'push',
  'pushProtected',
  'deleteProtected',
] as const

/** What comes of each action. */
export type Outcomes = Record<(typeof actions)[number], Outcome>

/** One of the two ways to a repository. */
export type Via = {
  list: () => Promise<Outcome>
  info: () => Promise<Outcome>
  git: (...args: string[]) => Promise<Outcome>
  remote: string
}

type Place = {
  /** The repository that it is all about. */
  name: string
  /** A project to push from. */
  folder: string
  /** Puts the protected branch, which is called `release`, back. */
  restore: () => Promise<unknown>
}

/** Tries all actions over a transport, one after the other. */
export async function tryAll(via: Via, { restore }: Place): Promise<Outcomes> {
  const { remote } = via
  await restore()
  return {
    list: await via.list(),
    info: await via.info(),
    fetch: await via.git('ls-remote', remote),
    push: await via.git('push', remote, '+HEAD:refs/heads/free', '+HEAD~:refs/heads/other'),
    pushProtected: await via.git('push', remote, 'HEAD:release'),
    deleteProtected: await via.git('push', remote, ':release'),
  }
}

/** HTTP with a token. */
export function overHttp(client: Client, { name, folder }: Place): Via {
  return {
    list: async () => toOutcome(await client.get('/repos'), name),
    info: async () => toOutcome(await client.get(`/repos/${name}`), name),
    git: async (...args) => afterGit(await toEnded(git(folder, args))),
    remote: client.remote(name),
  }
}

/** SSH with a key. */
export function overSsh(user: SshUser, { name, folder }: Place): Via {
  return {
    list: async () => afterCommand(await user.ssh('repos --json'), name),
    info: async () => afterCommand(await user.ssh(`info ${name} --json`), name),
    git: async (...args) => afterGit(await user.tryGit(folder, ...args)),
    remote: user.remote(name),
  }
}

const byStatus: Record<number, Outcome> = { 401: 'unknown', 403: 'forbidden', 404: 'absent' }

function toOutcome({ status, body }: Answer, name: string): Outcome {
  if (status === 200) return isThere(body, name) ? 'done' : 'absent'
  return byStatus[status] ?? fail(status)
}

function afterCommand(ended: Ended, name: string): Outcome {
  if (ended.exitCode === 0) return isThere(JSON.parse(ended.stdout), name) ? 'done' : 'absent'
  return ended.exitCode === 1 || ended.exitCode === 255 ? outcomeOf(ended) : fail(ended)
}

function afterGit(ended: Ended): Outcome {
  return ended.exitCode === 0 ? 'done' : outcomeOf(ended)
}

function outcomeOf({ stderr }: Ended): Outcome {
  if (/no repository ".*", or it is not yours to see/.test(stderr)) return 'absent'
  if (/requires the permission repo:(read|write)/.test(stderr)) return 'forbidden'
  if (/is protected by the rule "release"/.test(stderr)) return 'protected'
  if (/Permission denied \(publickey\)|Authentication failed|could not read Password/.test(stderr))
    return 'unknown'
  return fail(stderr)
}

/** Whether a repository is what was answered, or is in the list that was. */
function isThere(body: { name: string } | { name: string }[], name: string): boolean {
  return [body].flat().some((repository) => repository.name === name)
}

function fail(what: unknown): never {
  throw new Error(`This is no outcome: ${JSON.stringify(what)}`)
}
