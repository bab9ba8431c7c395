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
   * executes a run, for as long as it lasts. `job` is a step of a run, with the token of its job; `workload` is a job
   * elsewhere, with a token by a trust rule.
   */
  kind: 'token' | 'ssh-key' | 'anonymous' | 'local' | 'runner' | 'run' | 'job' | 'workload'
  /** The id of the token, the key or the run; opaque otherwise. */
  id: string
  username: string
  /** For `run` and `job`: the hash of the token, of which every claim of a run gets new ones. */
  tokenHash?: string
  /** For `job`: the user who caused the run. For `workload`: the user who created the trust rule. */
  causedBy?: string
  permissions: ReadonlySet<Permission>
  /** For `job`: whether its commit is of a user who may not push, so that it sees what the visibility of a repository shows. */
  isRestricted?: boolean
  /** The ids of the repositories that it is limited to; absent for all. */
  repositories?: ReadonlySet<string> | undefined
  /** For `workload`: the id of a namespace whose repositories it may access besides these. */
  namespaceId?: string | undefined
  /** The patterns of the refs that it may push; absent for all. */
  refs?: readonly string[] | undefined
  /** Whether the token was delegated from another token, which it cannot outlive. */
  isDelegated?: boolean
  /** For `anonymous`: whether it may read every repository, and not only public ones. */
  readsAll?: boolean
  /** The login by an identity provider with which the token ends; absent for others. */
  loginId?: string | undefined
  /** When the token or the key expires; null, or absent, for never. */
  expiresAt?: number | null
  /** How and from where the request came; absent when there is none. */
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
 * An anonymous reader: it may read public repositories, or where a setting says so, every repository, and do nothing else.
 * As no username is empty, it owns nothing and collaborates nowhere. For limits, it is identified by its network.
 */
export function anonymousFrom(address: string, readsAll: boolean): Principal {
  return {
    kind: 'anonymous',
    id: `anonymous from ${networkOf(address)}`,
    username: '',
    permissions: new Set(['repo:read']),
    readsAll,
  }
}

/** Returns the principal of a token. `allowsExpiredKeys` also accepts tokens of SSH keys that expired within a day. */
export type Authenticate = (
  token: string,
  options?: { allowsExpiredKeys?: boolean },
) => Promise<Principal | undefined>

/**
 * The key under which limits count a principal. All tokens and SSH keys of a user share a limit. So do the jobs of all
 * runs that the user caused, and the workloads that the user trusts, apart from the user's own requests, because they run
 * unattended. A runner has a limit for each of its runs.
 */
export function limitKeyOf({ kind, id, tokenHash, username, causedBy }: Principal): string {
  // No username contains a space, so these keys are not those of a user.
  if (causedBy !== undefined) return `jobs of ${causedBy}`
  return username || `${kind} ${tokenHash ?? id}`
}
