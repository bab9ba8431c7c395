import { networkOf } from '#base/network.ts'
import type { Permission } from './permissions.ts'

/** How a change is made: through the API, by Git over HTTP or SSH, by a command on the server, or by the server itself. */
export const origins = ['api', 'http', 'ssh', 'cli', 'server'] as const

/** How a change is made, and the client's address; null for commands and the server. */
export type Origin = { via: (typeof origins)[number]; address: string | null }

/** Who makes a request: a token or an SSH key that was valid when it was read, or a caller that needs neither. */
export type Principal = {
  /**
   * `local` is a user of the command line on the server itself, `runner` the runner beside it, and `run` a runner that
   * executes a run, for as long as it lasts. `job` is a step of a run, with the token of its job.
   */
  kind: 'token' | 'ssh-key' | 'anonymous' | 'local' | 'runner' | 'run' | 'job'
  /** The id of the token, the key or the run; opaque otherwise. */
  id: string
  username: string
  /** For `run` and `job`: the hash of the token. Each claim of a run gets new tokens. */
  claim?: string
  /** For `job`: the user who caused the run. */
  causedBy?: string
  permissions: ReadonlySet<Permission>
  /** The ids of the repositories that it is limited to; absent for all. */
  repositories?: ReadonlySet<string> | undefined
  /** The patterns of the refs that it may push; absent for all. */
  refs?: readonly string[] | undefined
  /** Whether its token was delegated from another one, with which it ends. */
  isDelegated?: boolean
  /** When the token or the key expires; null, or absent, for never. */
  expiresAt?: number | null
  /** Where its request comes from; absent when it makes none. */
  origin?: Origin | undefined
}

/** The principal of commands on the data directory: it has every permission. */
export const localPrincipal: Principal = {
  kind: 'local',
  id: 'local',
  username: 'admin',
  permissions: new Set(['admin']),
}

/**
 * An anonymous reader, who may read every repository and nothing else. Usernames are never empty, so this one
 * owns nothing and collaborates nowhere. Identified by network, for limits.
 */
export function anonymousFrom(address: string): Principal {
  return {
    kind: 'anonymous',
    id: `anonymous from ${networkOf(address)}`,
    username: '',
    permissions: new Set(['repo:read']),
  }
}

/**
 * The key of a principal in limits. All tokens and keys of a user share one, and so do the jobs of all runs that a user
 * caused. These have a key of their own, since a schedule can outlive its user's interest. A runner has one for each run.
 */
export function limitKeyOf({ kind, id, claim, username, causedBy }: Principal): string {
  // The spaces keep these keys apart from usernames.
  if (kind === 'job' && causedBy !== undefined) return `jobs of ${causedBy}`
  return username || `${kind} ${claim ?? id}`
}
