import type { PlainSettings } from '#config/settings.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { GuardResult, LeakGuard } from '../leak-guard/leak-guard.ts'
import type { Push } from '../push/push.ts'
import { isolateQuarantine, openQuarantine, withPushLimits } from '../push/pushed-objects.ts'
import { authorizePush } from './authorize-push.ts'

type Dependencies = Parameters<typeof authorizePush>[0] & {
  leakGuard: LeakGuard
  settings: Pick<PlainSettings, 'pushMemoryMaxBytes'>
}

type GuardedAuthorization = Awaited<ReturnType<typeof authorizePush>> &
  Pick<GuardResult, 'allowed' | 'warnings'>

const unguarded: GuardResult = { allowed: [], warnings: [], wasSlow: false }

/** Authorizes a push, and has the leak guard scan its objects. Throws the Problems of both. */
export async function authorizeGuarded(
  dependencies: Dependencies,
  push: Push,
  updates: RefUpdate[],
): Promise<GuardedAuthorization> {
  const first = await authorizePush(dependencies, push, updates)
  const { allowed, warnings, wasSlow } = await guard(dependencies, push, first.repository, updates)
  // Rights may have been revoked during a long scan.
  const authorized = wasSlow ? await authorizePush(dependencies, push, updates) : first
  return { ...authorized, allowed, warnings }
}

async function guard(
  { git, leakGuard, settings }: Dependencies,
  push: Push,
  repository: Repository,
  updates: RefUpdate[],
): Promise<GuardResult> {
  const { quarantine, objects, allowedLeaks: allow = [] } = push
  if (quarantine === undefined || repository.leakGuard === 'off') return unguarded
  const limitedGit = withPushLimits(git, settings)
  const scopedGit = await openQuarantine(limitedGit, push)
  const quarantinedGit = isolateQuarantine(limitedGit, quarantine)
  return leakGuard.check({
    repository,
    updates,
    quarantine,
    objects,
    allow,
    git: limitedGit,
    scopedGit,
    quarantinedGit,
  })
}
