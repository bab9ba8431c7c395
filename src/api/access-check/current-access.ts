import type { Access } from '#access/access-watch.ts'
import { credentialEnded, requirePermission } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import type { SshKeys } from '#identity/ssh-keys/ssh-keys.ts'
import type { Tokens } from '#identity/tokens/tokens.ts'
import type { WorkloadTokens } from '#identity/trust-rules/workload-tokens.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { Workflows } from '#workflows/workflows.ts'

type RefreshParts = {
  tokens: Pick<Tokens, 'refresh'>
  sshKeys: Pick<SshKeys, 'refresh'>
  workflows: Pick<Workflows, 'refreshJob'>
  workloads: Pick<WorkloadTokens, 'refresh'>
}

/** Reads principals again; undefined when their token or key was deleted or has expired. */
export function createRefresh({ tokens, sshKeys, workflows, workloads }: RefreshParts) {
  function read(principal: Principal): Promise<Principal | undefined> {
    if (principal.kind === 'job') return workflows.refreshJob(principal)
    if (principal.kind === 'workload') return workloads.refresh(principal)
    return principal.kind === 'ssh-key' ? sshKeys.refresh(principal) : tokens.refresh(principal)
  }

  return async (principal: Principal): Promise<Principal | undefined> => {
    const refreshed = await read(principal)
    return refreshed && { ...refreshed, origin: principal.origin }
  }
}

type CheckParts = {
  refresh: ReturnType<typeof createRefresh>
  workflows: Pick<Workflows, 'isRunTokenValid'>
  repositories: Pick<Repositories, 'recheck'>
}

/** Checks access again. Throws the Problem that a new request would get now. */
export function createAccessCheck({ refresh, workflows, repositories }: CheckParts) {
  async function currentPrincipal(principal: Principal): Promise<Principal> {
    switch (principal.kind) {
      case 'token':
      case 'ssh-key':
      case 'job':
      case 'workload': {
        const current = await refresh(principal)
        if (current) return current
        throw credentialEnded(principal.kind === 'ssh-key' ? 'SSH key' : 'token')
      }
      case 'run':
        if (await workflows.isRunTokenValid(principal)) return principal
        throw new Problem('token_invalid', "The run's token is no longer valid.")
      default:
        return principal
    }
  }

  return async ({ principal, permission, repository }: Access): Promise<void> => {
    const current = await currentPrincipal(principal)
    // Not to keep its directory in the cache of a shared store, however slow a client is.
    if (repository && permission) {
      const need = repository.need === 'proposer' ? 'proposer' : 'member'
      await repositories.recheck(current, repository, permission, need)
    } else if (permission) requirePermission(current, permission)
  }
}
