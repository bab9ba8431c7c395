import { isAdmin, requireAllUserRights, requirePermission } from '#access/may.ts'
import type { Permission } from '#access/permissions.ts'
import { limitKeyOf, type Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { isId, newId } from '#base/ids.ts'
import type { PageRequest } from '#base/list-all.ts'
import { isSecure } from '#base/network.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Db, TrustRuleRow } from '#database/schema.ts'
import type { Actor, Event, Publish } from '#events/events.ts'
import { invalid } from '#http/validation.ts'
import { toRefPatterns } from '../tokens/token-limits.ts'
import { parseLimit } from '../tokens/token-rows.ts'
import { listAdmins } from '../tokens/token-store.ts'
import { areIdentifying, type ClaimPatterns, identifyingClaims } from './claim-patterns.ts'
import {
  countTrustRules,
  deleteTrustRule,
  findTrustRule,
  insertTrustRule,
  listOfEnabled,
  listRuleRepositories,
  listTrustRules,
  type PlacedRule,
  type WhoseRules,
} from './trust-rule-store.ts'

/** Rules by which the tokens of workloads elsewhere are exchanged for tokens of this service. */
export type TrustRules = {
  /**
   * Creates a rule for repositories that the caller owns, or for all or some of a namespace in which the caller has the role
   * `admin`. Throws `token_limited`, `permission_missing`, `repository_not_found`, `namespace_not_found`, `owner_required`,
   * `role_insufficient`, `invalid_request`, `outbound_forbidden`, `outbound_unresolved`, `too_many_trust_rules`, and the
   * Problems of `admitAgain`, which is called once the host of its issuer is resolved.
   */
  create: (
    principal: Principal,
    rule: NewTrustRule,
    admitAgain: () => Promise<void>,
  ) => Promise<TrustRule>
  /**
   * Lists the rules of a repository that the caller owns, those of a namespace in which the caller has the role `admin`, or
   * else those that the caller created (all for an admin), oldest first.
   */
  list: (
    principal: Principal,
    options: { repository: string | undefined; namespace: string | undefined; page: PageRequest },
  ) => Promise<TrustRule[]>
  /**
   * Returns a rule that the caller created, or of a repository that the caller owns, or of a namespace in which the caller has
   * the role `admin`. Throws `trust_rule_not_found`.
   */
  find: (principal: Principal, id: string) => Promise<TrustRule>
  /** Deletes such a rule, with its tokens. Throws `trust_rule_not_found`. */
  remove: (principal: Principal, id: string) => Promise<void>
  /** Deletes the rules of a user who is being deleted; returns the events, for its caller to publish. */
  removeOf: (tx: Db, actor: Actor, username: string) => Promise<Event[]>
  /**
   * The ids of those of some rules whose creators could create them now: the user is not disabled, and has an admin token,
   * or owns all of the rule's repositories that exist, or for a rule of a namespace has the role `admin` there.
   */
  inForce: (rules: readonly TrustRuleRow[], idsByRule: IdsByRule) => Promise<ReadonlySet<string>>
}

/** The ids of the repositories of rules, by the ids of these. */
type IdsByRule = ReadonlyMap<string, readonly string[]>

/** The permissions of workloads: those that jobs of a run can have. */
export const workloadPermissions = [
  'repo:read',
  'repo:write',
  'workflow:read',
  'workflow:trigger',
  'status:write',
] as const satisfies Permission[]

export type WorkloadPermission = (typeof workloadPermissions)[number]

type NewTrustRule = {
  name: string
  issuer: string
  /** The address of the service when omitted. */
  audience?: string | undefined
  claims: Record<string, string>
  namespace?: string | undefined
  /** Those in the namespace when it is given, or omitted for all of it. */
  repositories?: string[] | undefined
  refs?: string[] | undefined
  permissions: Permission[]
}

type Stored = 'namespaceId' | 'coversAll' | 'claims' | 'refs' | 'permissions'

type TrustRule = Omit<TrustRuleRow, Stored> & {
  claims: Record<string, string>
  /** The name of its namespace, if the viewer has the role `admin` there. */
  namespace: string | null
  /** The names of the repositories that the viewer can see; null for all of the namespace. */
  repositories: string[] | null
  refs: string[] | null
  permissions: Permission[]
  /** Whether its creator could create it now. */
  inForce: boolean
}

/** The part of `Repositories` that trust rules use. */
type TrustRuleRepositories = {
  open: (
    principal: Principal,
    name: string,
    permission: Permission,
    need: 'owner',
  ) => Promise<{ id: string; namespaceId: string | null }>
  namesOf: (principal: Principal, ids: readonly string[]) => Promise<ReadonlyMap<string, string>>
  ownedBy: (username: string, ids: readonly string[]) => Promise<ReadonlyMap<string, boolean>>
}

/** The part of `Namespaces` that trust rules use. */
type TrustRuleNamespaces = {
  open: (principal: Principal, name: string, role: 'admin') => Promise<Place>
  hold: (tx: Db, namespace: Place) => Promise<void>
  administeredBy: (username: string, ids: readonly string[]) => Promise<ReadonlySet<string>>
}

type Place = { id: string; name: string }

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  outbound: Pick<Outbound, 'of'>
  repositories: TrustRuleRepositories
  namespaces: TrustRuleNamespaces
  /** The public address of the service. */
  baseUrl: () => string
}

const maxRules = 100

export function createTrustRules(dependencies: Dependencies): TrustRules {
  const { db, publish, clock, outbound, repositories, namespaces, baseUrl } = dependencies

  async function inForce(
    rules: readonly TrustRuleRow[],
    idsByRule: IdsByRule,
  ): Promise<ReadonlySet<string>> {
    if (rules.length === 0) return new Set()
    const byUser = Map.groupBy(rules, ({ username }) => username)
    const [enabled, admins] = await Promise.all([
      listOfEnabled(
        db,
        rules.map(({ id }) => id),
      ),
      listAdmins(db, [...byUser.keys()], clock.now()),
    ])
    const valid = new Set<string>()
    for (const [username, ofUser] of byUser) {
      const idsOf = ({ id }: TrustRuleRow) => idsByRule.get(id) ?? []
      const isAdminToken = admins.has(username)
      const [owned, administered] = isAdminToken
        ? []
        : await Promise.all([
            repositories.ownedBy(username, ofUser.flatMap(idsOf)),
            namespaces.administeredBy(username, namespacesOf(ofUser)),
          ])
      const mayCreate = (rule: TrustRuleRow) =>
        rule.namespaceId === null
          ? idsOf(rule).every((id) => owned?.get(id) !== false)
          : isAdminToken || administered?.has(rule.namespaceId)
      for (const rule of ofUser) if (enabled.has(rule.id) && mayCreate(rule)) valid.add(rule.id)
    }
    return valid
  }

  async function describe(viewer: Principal, rows: readonly PlacedRule[]): Promise<TrustRule[]> {
    const idsByRule = await listRuleRepositories(
      db,
      rows.map(({ id }) => id),
    )
    const names = await repositories.namesOf(viewer, [...new Set([...idsByRule.values()].flat())])
    const administered = await namespaces.administeredBy(viewer.username, namespacesOf(rows))
    const valid = await inForce(rows, idsByRule)
    return rows.map(({ namespaceId, coversAll, namespace, ...row }) => ({
      ...row,
      claims: JSON.parse(row.claims),
      namespace: isAdmin(viewer) || administered.has(namespaceId ?? '') ? namespace : null,
      repositories:
        coversAll === 1 ? null : (idsByRule.get(row.id) ?? []).flatMap((id) => names.get(id) ?? []),
      refs: parseLimit(row.refs),
      permissions: rulePermissions(row),
      inForce: valid.has(row.id),
    }))
  }

  async function describeOne(viewer: Principal, row: PlacedRule): Promise<TrustRule> {
    const [described] = await describe(viewer, [row])
    if (!described) throw new Error('a trust rule has no description')
    return described
  }

  /** Returns a rule that a caller may see and delete, with the ids of its repositories. */
  async function findOwn(principal: Principal, id: string) {
    const rule = isId(id) ? await findTrustRule(db, id) : undefined
    const ids = (rule && (await listRuleRepositories(db, [rule.id])).get(rule.id)) ?? []
    if (rule && (await isOwn(principal, rule, ids))) return { rule, ids }
    throw new Problem('trust_rule_not_found', `There is no trust rule with the id "${id}".`)
  }

  async function isOwn(principal: Principal, rule: TrustRuleRow, ids: readonly string[]) {
    if (isAdmin(principal) || rule.username === principal.username) return true
    if (rule.namespaceId !== null)
      return (await namespaces.administeredBy(principal.username, [rule.namespaceId])).size > 0
    return [...(await repositories.ownedBy(principal.username, ids)).values()].includes(true)
  }

  /** Deletes a rule; returns an event for its namespace, or for each of its repositories. */
  async function remove(tx: Db, actor: Actor, rule: PlacedRule, ids: readonly string[]) {
    if (!(await deleteTrustRule(tx, rule.id))) return []
    const data = { ruleId: rule.id, name: rule.name, ...inNamespace(rule) }
    const event = { kind: 'trust_rule.deleted', actor, data } as const
    return placesOf(rule, ids).map((repositoryId) => ({ ...event, repositoryId }))
  }

  /** The ids of the repositories of a new rule, which the caller owns, and the namespace that it is of. */
  async function openPlaces(
    principal: Principal,
    {
      namespace: namespaceName,
      repositories: names,
    }: Pick<NewTrustRule, 'namespace' | 'repositories'>,
  ) {
    const namespace =
      namespaceName === undefined
        ? undefined
        : await namespaces.open(principal, namespaceName, 'admin')
    if (!namespace && !names) throw placeMissing()
    const ids = new Set<string>()
    for (const [index, name] of (names ?? []).entries()) {
      const opened = await repositories.open(principal, name, 'collaborator:write', 'owner')
      if (namespace && opened.namespaceId !== namespace.id) throw outside(index, namespace.name)
      ids.add(opened.id)
    }
    return { namespace, ids: [...ids], coversAll: names ? 0 : 1 }
  }

  return {
    inForce,

    async create(principal, wanted, admitAgain) {
      requireAllUserRights(principal)
      // Also before the lookup, which only those who may create the rule can cause.
      await openPlaces(principal, wanted)
      for (const permission of wanted.permissions) requirePermission(principal, permission)
      requireIdentifying(wanted.claims)
      const { hostname } = readIssuer(wanted.issuer)
      if (wanted.issuer === baseUrl() && wanted.permissions.includes('workflow:trigger'))
        throw runsStartNone()
      const refs = wanted.refs ? toRefPatterns(wanted.refs) : null
      await outbound.of(limitKeyOf(principal)).resolve(hostname)
      await admitAgain()
      const { namespace, ids, coversAll } = await openPlaces(principal, wanted)
      const now = clock.now()
      const { name, issuer, audience = baseUrl(), claims } = wanted
      const permissions = [...new Set(wanted.permissions)]
      const row: TrustRuleRow = {
        ...{ id: newId(), name, username: principal.username, issuer, audience },
        ...{ namespaceId: namespace?.id ?? null, coversAll },
        claims: JSON.stringify(claims),
        refs: refs && JSON.stringify(refs),
        permissions: permissions.join(' '),
        ...{ createdAt: now, lastUsedAt: null, lastRefusedAt: null, lastRefusal: null },
      }
      const placed = { ...row, namespace: namespace?.name ?? null }
      await db.transaction().execute(async (tx) => {
        if (namespace) await namespaces.hold(tx, namespace)
        await insertTrustRule(tx, row, ids)
        const about = { ruleId: row.id, name, issuer, audience, claims, refs, permissions }
        const data = { ...about, ...inNamespace(placed) }
        const event = { kind: 'trust_rule.created', actor: principal, data } as const
        await publish(
          tx,
          now,
          placesOf(row, ids).map((repositoryId) => ({ ...event, repositoryId })),
        )
        // Counted last: publishing serializes concurrent additions, so their rows are visible now.
        if ((await countTrustRules(tx, row.username)) > maxRules) throw tooMany(row.username)
      })
      return describeOne(principal, placed)
    },

    async list(principal, { page, ...of }) {
      const rows = await listTrustRules(db, await whoseOf(principal, of), page)
      return describe(principal, rows)
    },

    async find(principal, id) {
      const { rule } = await findOwn(principal, id)
      return describeOne(principal, rule)
    },

    async remove(principal, id) {
      const { rule, ids } = await findOwn(principal, id)
      await db
        .transaction()
        .execute(async (tx) => publish(tx, clock.now(), await remove(tx, principal, rule, ids)))
    },

    async removeOf(tx, actor, username) {
      const rules = await listTrustRules(tx, { username }, { after: '', limit: maxRules })
      const idsByRule = await listRuleRepositories(
        tx,
        rules.map(({ id }) => id),
      )
      const events: Event[] = []
      for (const rule of rules)
        events.push(...(await remove(tx, actor, rule, idsByRule.get(rule.id) ?? [])))
      return events
    },
  }

  async function whoseOf(
    principal: Principal,
    { repository, namespace }: { repository: string | undefined; namespace: string | undefined },
  ): Promise<WhoseRules> {
    if (namespace !== undefined) {
      if (repository !== undefined) throw oneOfBoth()
      return { namespaceId: (await namespaces.open(principal, namespace, 'admin')).id }
    }
    if (repository !== undefined) {
      const { id } = await repositories.open(principal, repository, 'collaborator:read', 'owner')
      return { repositoryId: id }
    }
    return isAdmin(principal) ? 'all' : { username: principal.username }
  }
}

function namespacesOf(rules: readonly TrustRuleRow[]): string[] {
  return [...new Set(rules.flatMap(({ namespaceId }) => namespaceId ?? []))]
}

/** The repositories whose events are about a rule; null for one of a namespace, or of repositories that are gone. */
function placesOf({ namespaceId }: TrustRuleRow, ids: readonly string[]): (string | null)[] {
  return namespaceId === null && ids.length > 0 ? [...ids] : [null]
}

function inNamespace({ namespace }: PlacedRule): { namespace?: string } {
  return namespace === null ? {} : { namespace }
}

export function rulePermissions({
  permissions,
}: Pick<TrustRuleRow, 'permissions'>): WorkloadPermission[] {
  const words = permissions.split(' ')
  return workloadPermissions.filter((permission) => words.includes(permission))
}

/** Parses the address of an issuer, which must be what its tokens say. Throws `invalid_request`. */
function readIssuer(text: string): URL {
  const url = URL.parse(text)
  const isPlain = url && !url.username && !url.password && !/[?#\s\p{C}]/u.test(text)
  if (isPlain && isSecure(url)) return url
  const detail = 'must be an https address without query, as the `iss` of the tokens has it.'
  throw invalid([{ pointer: '/issuer', detail }])
}

function requireIdentifying(claims: ClaimPatterns): void {
  if (areIdentifying(claims)) return
  const detail = `must name the workload by the beginning of one of ${identifyingClaims.join(', ')}.`
  throw invalid([{ pointer: '/claims', detail }])
}

function runsStartNone(): Problem {
  const detail = 'must not have workflow:trigger for runs of this server: a run cannot start runs.'
  return invalid([{ pointer: '/permissions', detail }])
}

function placeMissing(): Problem {
  const detail = 'is required, unless the rule is of a namespace.'
  return invalid([{ pointer: '/repositories', detail }])
}

function outside(index: number, namespace: string): Problem {
  const detail = `must be in the namespace "${namespace}".`
  return invalid([{ pointer: `/repositories/${index}`, detail }])
}

function oneOfBoth(): Problem {
  const detail = 'must be omitted with repository.'
  return invalid([{ parameter: 'namespace', in: 'query', detail }])
}

function tooMany(username: string): Problem {
  return new Problem(
    'too_many_trust_rules',
    `"${username}" has ${maxRules} trust rules, which is the maximum; delete one first.`,
  )
}
