import type { Clock } from '#base/clock.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { StampOf } from '#browse/repository-stamps.ts'
import type { PlainSettings } from '#config/settings.ts'
import { endUnread } from '#http/connection/connections.ts'
import { statusOf } from '#http/problem-response.ts'
import type { PageExchange, PageServer } from '#http/serve/page-requests.ts'
import type { CliLogins } from '#identity/logins/cli-logins.ts'
import type { Logins } from '#identity/logins/provider-logins.ts'
import type { Sessions } from '#identity/sessions/sessions.ts'
import { createAssets } from '../assets.ts'
import { clearDone } from '../done.ts'
import { encodeRevision } from '../links.ts'
import {
  type Page,
  type PageContext,
  type PageRoute,
  RawResponse,
  Redirect,
  type View,
} from '../page.ts'
import { problemView, setProblemHeaders } from '../problem-page.ts'
import { logoutOf } from '../provider-pages.ts'
import { createRenderer } from '../render/renderer.ts'
import { toLogin } from '../session-pages.ts'
import { isOpenToAnonymous } from './audience.ts'
import { createFormActions } from './form-actions.ts'
import { matchPages, type PageMatch, pageMethodProblem } from './match.ts'
import { createPageCache } from './page-cache.ts'
import { doneOf, formPageOf, pages } from './page-list.ts'
import { createPageRates } from './page-rates.ts'
import { robotsText, withNofollow } from './robots.ts'
import { createPageSender, type PageResult } from './send-page.ts'
import { createSessionPages } from './serve-session-pages.ts'
import { createSessionWatch } from './session-watch.ts'
import { createVisits, type Visit } from './visits.ts'

type Dependencies = {
  sessions: Sessions
  logins: Logins | undefined
  cliLogins: CliLogins
  settings: Pick<
    PlainSettings,
    | 'baseUrl'
    | 'webAnonymousRead'
    | 'bodySeconds'
    | 'pagesCacheBytes'
    | 'undoDays'
    | 'requestsPerSecond'
    | 'requestBurst'
  >
  /** The public address of the service. */
  baseUrl: () => string
  /** The public address of SSH; null when it is off. */
  sshUrl: () => string | null
  stampOf: StampOf
  /** Whether any repository is public. */
  hasPublic: () => Promise<boolean>
  version: string
  clock: Clock
  log: Log
}

/** Creates the server of pages. */
export function createWeb({
  sessions,
  logins,
  cliLogins,
  settings,
  baseUrl,
  sshUrl,
  stampOf,
  hasPublic,
  version,
  clock,
  log,
}: Dependencies): PageServer {
  const assets = createAssets()
  const { render } = createRenderer({ log })
  const visits = createVisits({
    sessions,
    baseUrl,
    version,
    clock,
    render,
    canUndo: settings.undoDays > 0,
  })
  const limitRate = createPageRates({ settings, clock })
  const showCached = createPageCache({ maxBytes: settings.pagesCacheBytes, stampOf })
  const bodyTimeoutMs = settings.bodySeconds * 1000
  const performAction = createFormActions({ sessions, limitRate, sshUrl, bodyTimeoutMs, clock })
  const serveSessionPage = createSessionPages({
    sessions,
    logins,
    cliLogins,
    limitRate,
    sshUrl,
    bodyTimeoutMs,
  })
  const sender = createPageSender({ assets, sessionWatch: createSessionWatch(sessions) })

  /** Whether pages of repositories are open without a login. */
  const hasPages = async () => settings.webAnonymousRead !== 'off' || hasPublic()

  async function answer(
    exchange: PageExchange,
    route: PageRoute,
    visit: Visit,
  ): Promise<PageResult> {
    switch (route.kind) {
      case 'session':
        return serveSessionPage(exchange, route, visit)
      case 'action':
        return performAction(exchange, route, visit)
      case 'page':
        return show(exchange, route, visit)
    }
  }

  async function show(exchange: PageExchange, route: Page, visit: Visit): Promise<PageResult> {
    const { open, context, to } = visit
    if (!open && !context.caller.readsAll && !(await isOfPublic(route, context)))
      return toLogin(to, exchange.request.method === 'GET' ? context.url : '/')
    limitRate(visit, exchange, route.weight)
    const ofDefaultBranch = await fromHead(context)
    if (ofDefaultBranch) return ofDefaultBranch
    const shown = open ? route : forSearchEngines(route, to.prefix)
    if (shown.isCached) return showCached(shown, context)
    const done = doneOf(exchange.request.headers)
    const result = await shown.show({ ...context, done })
    if (done && !(result instanceof RawResponse))
      exchange.response.setHeader('set-cookie', clearDone(context))
    return result
  }

  /**
   * Whether a page is open without a login where no setting says so: those of a public repository, and the list of all of
   * them. Any other name gets the same response, whether there is such a repository or not. Throws `repository_not_found`
   * for the former name of a public one, which leads to it.
   */
  async function isOfPublic({ audience }: Page, { params, may, read }: PageContext) {
    if (audience === 'members') return false
    if (params.name === undefined) return hasPublic()
    if (await may('getRepository')) return true
    await read('getRepository').catch((error) => {
      if (!(error instanceof Problem) || error.members?.renamedTo !== undefined) throw error
    })
    return false
  }

  /** The responses that need no session; undefined for those of pages. */
  async function bareResponse({ request, path, query }: PageExchange, prefix: string) {
    const redirect = gitRedirect(request.method, path, query, prefix)
    if (redirect) return { result: redirect, template: '/r/:name/info/refs' }
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    if (!isRead) return undefined
    if (path === '/robots.txt')
      return { result: robotsText(await hasPages(), prefix), template: path }
    const route = pageWithoutSlash(path)
    if (route === undefined) return undefined
    const search = query.size > 0 ? `?${query}` : ''
    return { result: new Redirect(`${prefix}${path.slice(0, -1)}${search}`), template: route.path }
  }

  function openVisit(exchange: PageExchange, match: PageMatch | undefined): Promise<Visit> {
    const { params = {}, route } = match ?? {}
    const visited = { params, query: exchange.query }
    const readsAll =
      route?.kind === 'page' && isOpenToAnonymous(route, settings.webAnonymousRead, visited)
    return visits.open(exchange, params, readsAll)
  }

  async function serve(exchange: PageExchange): Promise<string> {
    const { request, response, path } = exchange
    if (await assets.serve(exchange)) return '/-/assets'
    let visit: Visit | undefined
    let template = 'page'
    try {
      const bare = await bareResponse(exchange, visits.prefixOf(exchange))
      if (bare) {
        await sender.sendBare(exchange, bare.result)
        return bare.template
      }
      const matches = matchPages(pages, request.method ?? '', path)
      let [match] = matches
      visit = await openVisit(exchange, match)
      if (match === undefined) throw new Problem('route_not_found', 'There is no such page.')
      for (const other of matches.slice(1)) {
        if (await mayRead(exchange, visit)) break
        const next = await openVisit(exchange, other)
        if ((await mayRead(exchange, next)) || (await isFormerName(next)))
          [match, visit] = [other, next]
      }
      template = match.route.path
      const result = await answer(exchange, match.route, visit)
      await sender.send(exchange, visit, withStyles(result, match.route))
    } catch (error) {
      const problem = await exchange.problemOf(error)
      if (response.headersSent || response.destroyed) {
        response.destroy()
        return template
      }
      const moved =
        visit &&
        (toRenamed(problem, visit.context, request.method) ??
          (await toNamespace(problem, visit.context, path)))
      if (visit && moved) {
        await sender.send(exchange, visit, moved)
        return template
      }
      setProblemHeaders(exchange, problem)
      endUnread(request, response, statusOf(problem))
      // Of a request that was refused before; without the database there is no session.
      visit ??= await visits.open(exchange, {}, false).catch(() => visits.openAnonymous(exchange))
      const provider =
        problem.code === 'login_refused' ? await logoutOf(logins, visit.context) : undefined
      await sender.send(exchange, visit, problemView(problem, visit.context, provider))
    }
    return template
  }

  return { serve, methodProblem: (path) => pageMethodProblem(pages, path) }
}

/** Leads from a page of a repository that was renamed to the same page under its present name. */
function toRenamed(
  { members }: Problem,
  { url, to, params }: PageContext,
  method: string | undefined,
): Redirect | undefined {
  const renamedTo = members?.renamedTo
  if (renamedTo === undefined || (method !== 'GET' && method !== 'HEAD')) return undefined
  const path = url.replace(repositoryPath(params), '')
  return path === url ? undefined : new Redirect(to.repository(renamedTo) + path)
}

/** Leads from the address that a repository with the name of a namespace would have to the page of the namespace. */
async function toNamespace(
  { code }: Problem,
  { to, may }: PageContext,
  path: string,
): Promise<Redirect | undefined> {
  const [, namespace] = /^\/r\/([A-Za-z0-9._-]+)$/.exec(path) ?? []
  if (code !== 'repository_not_found' || namespace === undefined) return undefined
  return (await may('getNamespace', { namespace }))
    ? new Redirect(to.namespace(namespace))
    : undefined
}

/** The beginning of the paths of a repository's pages, with its name as a request may have it. */
function repositoryPath({ name = '' }: PageContext['params']): RegExp {
  return name.includes('/') ? /^\/r\/(?:[^/?]+%2[Ff][^/?]+|[^/?]+\/[^/?]+)/ : /^\/r\/[^/?]+/
}

/** Whether the caller of a visit can see the repository of its page. */
function mayRead({ may }: PageExchange, { caller, context }: Visit): Promise<boolean> {
  return may(caller, 'getRepository', context.params)
}

/** Whether the repository of a page had its name before, and is now led to. */
function isFormerName({ context }: Visit): Promise<boolean> {
  return context.read('getRepository').then(
    () => false,
    (error) => error instanceof Problem && error.members?.renamedTo !== undefined,
  )
}

/** Leads from the revision `HEAD` to the default branch, so that links need not name it. No branch or tag has this name. */
async function fromHead({ params, url, to, read }: PageContext): Promise<Redirect | undefined> {
  if (!/^HEAD(?::|$|\.(?:atom|tar\.gz|zip)$)/.test(params.target ?? '')) return undefined
  const { defaultBranch } = await read('getRepository')
  const branch = encodeRevision(defaultBranch)
  const [path = '', ...query] = url.split('?')
  const start = path.slice(0, -(params.target?.length ?? 0))
  const rest = path.slice(start.length).replace('HEAD', () => branch)
  return new Redirect(to.api([start + rest, ...query].join('?')))
}

/** The page at a path that a person has ended with a slash; undefined if that is the path of a page, too. */
function pageWithoutSlash(path: string): PageRoute | undefined {
  if (path === '/' || !path.endsWith('/') || matchPages(pages, 'GET', path).length > 0)
    return undefined
  return matchPages(pages, 'GET', path.slice(0, -1))[0]?.route
}

/** A page as it is shown without a session, such as to a search engine. */
function forSearchEngines(page: Page, prefix: string): Page {
  const limit =
    <C>(show: (context: C) => Promise<View | RawResponse | Redirect>) =>
    async (context: C) => {
      const result = await show(context)
      if (result instanceof RawResponse || result instanceof Redirect) return result
      return { ...result, body: withNofollow(result.body, prefix) }
    }
  return page.isCached ? { ...page, show: limit(page.show) } : { ...page, show: limit(page.show) }
}

/** Gives a page the styles of its route, or of the page with its form. */
function withStyles(result: PageResult, route: PageRoute): PageResult {
  const page = route.kind === 'action' ? formPageOf(route) : route
  if (page?.styles === undefined || result instanceof RawResponse || result instanceof Redirect)
    return result
  return { ...result, styles: page.styles }
}

const advertisement = /^\/r\/((?:[^/]+\/)?[^/]+?)(?:\.git)?\/info\/refs$/
const lfs = /^\/r\/((?:[^/]+\/)?[^/]+?)(?:\.git)?(\/info\/lfs\/.+)$/
const services = new Set(['git-upload-pack', 'git-receive-pack'])

/**
 * Sends Git from the address of a page to the address of the repository: Git goes on there with all further requests
 * (`http.followRedirects`), and git-lfs is sent there with each. It is the same for every name, and before authentication.
 */
function gitRedirect(
  method: string | undefined,
  path: string,
  query: URLSearchParams,
  prefix: string,
): Redirect | undefined {
  const [, large, rest] = lfs.exec(path) ?? []
  if (large !== undefined) {
    const search = query.size > 0 ? `?${query}` : ''
    return new Redirect(`${prefix}/repos/${large}.git${rest}${search}`, 308)
  }
  const [, name] = advertisement.exec(path) ?? []
  const service = query.get('service') ?? ''
  if (name === undefined || method !== 'GET' || !services.has(service)) return undefined
  return new Redirect(`${prefix}/repos/${name}.git/info/refs?service=${service}`, 307)
}
