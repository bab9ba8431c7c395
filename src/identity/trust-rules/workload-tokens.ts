import { setTimeout as sleep } from 'node:timers/promises'
import { workloadUsername } from '#access/names.ts'
import type { Origin, Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import type { Log } from '#base/log.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import { Problem } from '#base/problem.ts'
import { hashToken, isTokenString, newTokenString } from '#base/token-string.ts'
import type { Database } from '#database/database.ts'
import type { TrustRuleRow } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import type { RecordRefusal } from '#events/audit/record-refusal.ts'
import { parseLimit } from '../tokens/token-rows.ts'
import { claimMismatch } from './claim-patterns.ts'
import { createIssuerKeys } from './issuer-keys.ts'
import {
  findWorkloadToken,
  insertWorkloadToken,
  type LiveWorkloadToken,
  listRuleRepositories,
  listRulesFor,
  listUsersOfIssuer,
  updateTrustRule,
} from './trust-rule-store.ts'
import { rulePermissions, type TrustRules, type WorkloadPermission } from './trust-rules.ts'
import { refusedExchange, verifyWorkload, type Workload } from './verify-workload.ts'

/** Tokens of workloads: each has the rights that its trust rule names, and ends with the rule. */
export type WorkloadTokens = {
  /**
   * Exchanges the JWT of a workload for a token by the oldest matching rule of a repository, given by its name. Throws
   * `exchange_refused`, `issuer_unavailable` and `too_many_requests`.
   */
  exchange: (jwt: string, repositoryName: string, origin: Origin) => Promise<ExchangedToken>
  /** Returns the principal of a token; undefined if it is unknown or expired, or its rule is not in force. */
  authenticate: (token: string) => Promise<Principal | undefined>
  /** Returns the current state of a principal; undefined if its token has expired, or its rule is not in force. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
}

type ExchangedToken = { token: string; expiresIn: number; permissions: WorkloadPermission[] }

type Dependencies = {
  db: Database
  clock: Clock
  log: Log
  outbound: Outbound
  trustRules: Pick<TrustRules, 'inForce'>
  recordRefusal: RecordRefusal
  repositories: { idNamed: (name: string) => Promise<string | undefined> }
  /** The public address of the service. */
  baseUrl: () => string
}

const lifetimeSeconds = 3600
/** Of a rule, at a time. */
const maxTokens = 1000
const maxNotedRefusals = 20
/** Longer than all that depends on which repositories and rules there are. */
const refusalMs = 100
const nameMaxLength = 200
// As those of jobs of runs: a token for some refs changes no setting of a repository.
const allRefs: readonly string[] = ['refs/*']

export function createWorkloadTokens(dependencies: Dependencies): WorkloadTokens {
  const { db, clock, log, trustRules, repositories, baseUrl, recordRefusal } = dependencies
  const keys = createIssuerKeys(dependencies)

  async function principalOf(found: LiveWorkloadToken | undefined): Promise<Principal | undefined> {
    if (!found) return undefined
    const { tokenId, subject, expiresAt, rule } = found
    const idsByRule = await listRuleRepositories(db, [rule.id])
    if (!(await trustRules.inForce([rule], idsByRule)).has(rule.id)) return undefined
    const ids = idsByRule.get(rule.id) ?? []
    return {
      kind: 'workload',
      id: tokenId,
      username: usernameOf(rule, subject),
      causedBy: rule.username,
      permissions: new Set(rulePermissions(rule)),
      repositories: new Set(ids),
      namespaceId: rule.coversAll === 1 ? (rule.namespaceId ?? undefined) : undefined,
      refs: parseLimit(rule.refs) ?? allRefs,
      expiresAt,
    }
  }

  /** The oldest rule in force that matches; the others note why they do not. */
  async function findRule(workload: Workload, name: string) {
    const repositoryId = await repositories.idNamed(name)
    if (repositoryId === undefined) return undefined
    const rules = await listRulesFor(db, { repositoryId, issuer: workload.issuer })
    const idsByRule = await listRuleRepositories(
      db,
      rules.map(({ id }) => id),
    )
    const valid = await trustRules.inForce(rules, idsByRule)
    const refusals: { id: string; lastRefusal: string }[] = []
    for (const rule of rules) {
      const lastRefusal = valid.has(rule.id) ? mismatch(workload, rule) : notInForce
      if (lastRefusal === undefined) return { rule, repositoryId }
      refusals.push({ id: rule.id, lastRefusal })
    }
    if (refusals.length === 0) return undefined
    const lastRefusedAt = clock.now()
    await db.transaction().execute(async (tx) => {
      for (const { id, lastRefusal } of refusals.slice(0, maxNotedRefusals))
        await updateTrustRule(tx, id, { lastRefusedAt, lastRefusal })
    })
    return undefined
  }

  function usernameOf({ name, issuer }: TrustRuleRow, subject: string): string {
    return workloadUsername({ name, isRun: issuer === baseUrl() }, subject)
  }

  return {
    async exchange(jwt, repositoryName, origin) {
      const usersOf = (issuer: string) => listUsersOfIssuer(db, issuer)
      const workload = await verifyWorkload(jwt, { keys, log, usersOf, now: clock.now() })
      // What takes longer for a rule than for none must not show that there is one.
      const refused = sleep(refusalMs)
      const match = await findRule(workload, repositoryName)
      const { issuer, subject } = workload
      if (!match) {
        const actor = { id: 'anonymous', username: '', origin }
        await recordRefusal(`workload ${issuer} ${subject}`, {
          ...{ action: 'token.exchange_refused', actor, repositoryId: null },
          data: { issuer, subject, repositoryName: repositoryName.slice(0, nameMaxLength) },
        })
        await refused
        throw refusedExchange('invalid_target', noMatch)
      }
      const { rule, repositoryId } = match
      const now = clock.now()
      const [id, token, expiresAt] = [newId(), newTokenString(), now + lifetimeSeconds * 1000]
      const action = {
        action: 'token.exchanged',
        actor: { id, username: usernameOf(rule, subject), origin },
        repositoryId,
        data: { ruleId: rule.id, issuer, subject, expiresAt },
      } as const
      await db.transaction().execute(async (tx) => {
        const row = { id, tokenHash: hashToken(token), ruleId: rule.id, subject, expiresAt }
        // First, since it makes the deletion of the rule wait.
        if (!(await updateTrustRule(tx, rule.id, { lastUsedAt: now })))
          throw refusedExchange('invalid_target', noMatch)
        const fullUntil = await insertWorkloadToken(tx, row, { now, max: maxTokens })
        if (fullUntil !== undefined) throw tooManyTokens(fullUntil - now)
        await recordActions(tx, now, [action])
      })
      return { token, expiresIn: lifetimeSeconds, permissions: rulePermissions(rule) }
    },

    async authenticate(token) {
      if (!isTokenString(token)) return undefined
      return principalOf(await findWorkloadToken(db, { tokenHash: hashToken(token) }, clock.now()))
    },

    refresh: async ({ id }) => principalOf(await findWorkloadToken(db, { id }, clock.now())),
  }
}

/** The same for every reason, so that it helps no one to guess repositories and rules. */
const noMatch =
  'No trust rule of this repository admits the workload; its owner sees why with `svc trust-rules show`.'

function tooManyTokens(waitMs: number): Problem {
  const detail = `The trust rule has ${maxTokens} valid tokens, which is the maximum; the first of them ends within the hour.`
  const retryAfterSeconds = Math.ceil(waitMs / 1000)
  return new Problem('too_many_requests', detail, { retryAfterSeconds })
}

const notInForce = 'The user who created this rule could not create it now.'

/** Why a rule does not match a workload; undefined if it does. */
function mismatch({ claims }: Workload, rule: TrustRuleRow): string | undefined {
  // A token that is also for another service could come from there.
  const audiences = [claims.aud].flat()
  if (audiences.length !== 1 || audiences[0] !== rule.audience)
    return `The audience of the token is ${JSON.stringify(claims.aud)?.slice(0, 300)}, and not ${JSON.stringify(rule.audience)} alone.`
  return claimMismatch(claims, JSON.parse(rule.claims))
}
