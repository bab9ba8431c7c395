import { checkRoutes } from '#api/access-check/check-routes.ts'
import { createEventLog } from '#api/event-log/event-log.ts'
import { eventRoutes } from '#api/event-log/event-routes.ts'
import { mcpRoutes } from '#api/mcp/mcp-routes.ts'
import type { Browse } from '#browse/browse.ts'
import { changeRoutes } from '#changes/change-routes.ts'
import type { Changes } from '#changes/changes.ts'
import type { PlainSettings } from '#config/settings.ts'
import { auditRoutes } from '#events/audit/audit-routes.ts'
import type { GitServer } from '#git-server/git-server.ts'
import { withPublicRoutes } from '#http/openapi/public-routes.ts'
import type { Route } from '#http/route.ts'
import { loginCodeRoutes } from '#identity/sessions/login-code-routes.ts'
import type { CreateLoginLink } from '#identity/sessions/login-links.ts'
import { sshKeyRoutes } from '#identity/ssh-keys/ssh-key-routes.ts'
import { tokenRoutes } from '#identity/tokens/token-routes.ts'
import { exchangeRoute } from '#identity/trust-rules/exchange-route.ts'
import { trustRuleRoutes } from '#identity/trust-rules/trust-rule-routes.ts'
import { userRoutes } from '#identity/users/user-routes.ts'
import type { Metrics } from '#ops/metrics/metrics.ts'
import { metricsRoutes } from '#ops/metrics/metrics-routes.ts'
import { deletedRepositoryRoutes } from '#repositories/deleted-repository-routes.ts'
import { importRoutes } from '#repositories/imports/import-routes.ts'
import { namespaceRoutes } from '#repositories/namespaces/namespace-routes.ts'
import { namespaceUsageRoutes } from '#repositories/namespaces/namespace-usage-routes.ts'
import { repositoryRoutes } from '#repositories/repository-routes.ts'
import { secretRoutes } from '#secrets/secret-routes.ts'
import { pageHeaders } from '#web/page-headers.ts'
import { toWorkflowPath } from '#workflows/commits/workflow-paths.ts'
import type { App } from './app.ts'

type RouteParts = {
  app: App
  gitServer: GitServer
  changes: Changes
  browse: Browse
  createLoginLink: CreateLoginLink
  metrics: Metrics
  version: string
  settings: Pick<PlainSettings, 'baseUrl' | 'commitBodyMaxBytes'>
  requireParts: () => Promise<void>
}

/** Wires the routes of all slices, in the order in which the documentation has them. */
export function createRoutes(parts: RouteParts): Route[] {
  const { app, gitServer, browse, metrics, version, requireParts } = parts
  const { db, notifier, repositories, protections, collaborators, secrets, refresh } = app
  const { defaultBranches } = gitServer
  const health = async () => {
    await requireParts()
    if (!(await app.freeSpace.checkShort())) return 'ok'
    // Other nodes of a shared store can write.
    if (app.store.shared) await app.freeSpace.require()
    return 'storage_full'
  }
  const baseUrl = () => app.address.http
  const routes: Route[] = [
    ...repositoryRoutes({
      repositories,
      namespaces: app.namespaces,
      protections,
      collaborators,
      defaultBranches,
      toWorkflowPath,
      findRuleWarnings: app.workflows.findRuleWarnings,
    }),
    ...deletedRepositoryRoutes(app.deletedRepositories),
    ...importRoutes(app.imports),
    ...namespaceRoutes(app.namespaces),
    ...namespaceUsageRoutes(app),
    ...browse.routes,
    ...secretRoutes({ repositories, namespaces: app.namespaces, secrets }),
    ...app.workflows.routes,
    ...app.idTokens.routes,
    ...eventRoutes(createEventLog({ db, notifier, repositories, refresh })),
    ...app.webhooks.routes,
    ...userRoutes(app.users),
    ...tokenRoutes(app.tokens),
    ...sshKeyRoutes(app.sshKeys),
    ...trustRuleRoutes(app.trustRules),
    exchangeRoute({ workloads: app.workloads, baseUrl: parts.settings.baseUrl }),
    ...loginCodeRoutes(parts.createLoginLink),
    ...auditRoutes({ auditLog: app.auditLog, repositories }),
    ...metricsRoutes(metrics),
    ...gitServer.routes,
    ...changeRoutes({
      repositories,
      changes: parts.changes,
      commitBodyMaxBytes: parts.settings.commitBodyMaxBytes,
    }),
  ]
  routes.push(
    ...checkRoutes({
      repositories,
      checkPush: gitServer.checkPush,
      findToken: app.tokens.principalOf,
      routes: [...routes],
    }),
  )
  const all = [...routes, ...mcpRoutes({ routes, version, baseUrl })]
  return withPublicRoutes(all, {
    version,
    baseUrl,
    health,
    docs: { headers: pageHeaders, render: createRenderDocs(version) },
  })
}

/** The last page is kept: it is the same for all who use the same address. */
function createRenderDocs(version: string) {
  let last: { origin: string; page: Promise<string> } | undefined

  async function render(routes: Route[], origin: string): Promise<string> {
    // Loaded on demand to save memory and start-up time.
    const { toDocsPage } = await import('#web/docs/docs-page.ts')
    const { operations } = await import('#cli/operations/client-operations.ts')
    return toDocsPage({ routes, version, origin, commands: operations })
  }

  return (routes: Route[], origin: string): Promise<string> => {
    if (last?.origin !== origin) last = { origin, page: render(routes, origin) }
    return last.page
  }
}
