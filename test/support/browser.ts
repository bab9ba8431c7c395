import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { logIn } from './page-client.ts'
import { programs } from './programs.ts'
import { isSoak } from './rounds.ts'

/** Starts Debian's Chromium, by default without the cache of whole pages behind its back button. */
export function startBrowser({ keepsPages = false } = {}): Promise<Browser> {
  const executablePath = programs.chromium.find() ?? ''
  const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking']
  const ignoreDefaultArgs = keepsPages ? ['--disable-back-forward-cache'] : []
  return chromium.launch({ executablePath, args, ignoreDefaultArgs })
}

/** How a person may see a page. */
export type Eyes = { width: number; scheme: 'light' | 'dark'; hasScripts: boolean }

const eight: Eyes[] = [true, false].flatMap((hasScripts) =>
  [1360, 320].flatMap((width) =>
    (['light', 'dark'] as const).map((scheme) => ({ width, scheme, hasScripts })),
  ),
)

/** Two of them, in which each setting occurs. */
const two = eight.filter(
  ({ width, scheme, hasScripts }) =>
    (width === 320) === (scheme === 'dark') && (width === 320) !== hasScripts,
)

/**
 * The combinations in which every page must be whole; without a soak, those that cover every setting. Those with scripts
 * come first.
 */
export const allEyes = isSoak ? eight : two

/** Opens a window, logged in with a token if one is given. */
export async function openWindow(
  browser: Browser,
  { url, token, width, scheme, hasScripts }: Eyes & { url: string; token?: string },
): Promise<{ context: BrowserContext; page: Page; faults: string[] }> {
  const context = await browser.newContext({
    baseURL: url,
    viewport: { width, height: 900 },
    colorScheme: scheme,
  })
  if (!hasScripts) await removeScripts(context)
  if (token !== undefined) await addSession(context, url, token)
  const page = await context.newPage()
  const faults: string[] = []
  page.on('pageerror', (error) => faults.push(`${error.message} at ${page.url()}`))
  page.on('console', (message) => faults.push(`${message.text()} at ${page.url()}`))
  return { context, page, faults }
}

// Not by switching scripts off in the browser, where axe could not run either.
function removeScripts(context: BrowserContext): Promise<unknown> {
  return context.route('**/*.js', (route) =>
    route.fulfill({ contentType: 'text/javascript', body: '' }),
  )
}

/** Logs in as the form of the login does, which costs no page. */
async function addSession(context: BrowserContext, url: string, token: string): Promise<void> {
  const [name = '', value = ''] = (await logIn(url, token)).cookie().split('=')
  await context.addCookies([{ name, value, url }])
}

/** Walks in each view, logged in with the token, through one window, since one each costs more than its pages. */
export async function inEveryView(
  { url, token }: { url: string; token: string },
  walk: (page: Page) => Promise<void>,
): Promise<void> {
  const [first, ...others] = allEyes
  assert.ok(first)
  const browser = await startBrowser()
  try {
    const { context, page, faults } = await openWindow(browser, { ...first, url, token })
    await walk(page)
    for (const { width, scheme, hasScripts } of others) {
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme: scheme })
      if (!hasScripts) await removeScripts(context)
      await walk(page)
    }
    assert.deepEqual(faults, [])
  } finally {
    await browser.close()
  }
}

/** Asserts that pages are accessible in every view, and write nothing to the console. */
export function assertAccessibleInEveryView(
  service: { url: string; adminToken: string },
  paths: readonly string[],
): Promise<void> {
  let views = 0
  return inEveryView({ url: service.url, token: service.adminToken }, async (page) => {
    // The markup is the same in the other views.
    const rules = views++ === 0 ? undefined : rulesOfLook
    for (const path of paths) {
      await page.goto(path)
      await assertAccessible(page, rules)
    }
  })
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** The rules of axe whose results depend on colours and the width of the window. */
const rulesOfLook = ['color-contrast', 'link-in-text-block', 'scrollable-region-focusable']

/**
 * Asserts that axe finds nothing on the page that is open, by all rules or some, that it has its styles, and no horizontal
 * scroll.
 */
export async function assertAccessible(page: Page, rules?: readonly string[]): Promise<void> {
  // Evaluated by the debugger, which no policy of the page concerns.
  await page.evaluate(axe)
  const found = await page.evaluate(
    `axe.run(document, { resultTypes: ['violations'], ...${JSON.stringify(rules ? { runOnly: rules } : {})} }).then(({ violations }) =>
      violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).slice(0, 3).join(' ')))`,
  )
  assert.deepEqual(found, [], page.url())
  await assertStyled(page)
  await assertNoOverflow(page)
}

const allStyles = globSync('src/web/assets/css/*.css')
  .map((path) => readFileSync(path, 'utf8'))
  .join('')

/** Asserts that no rule of another style sheet is for something that the page that is open shows. */
async function assertStyled(page: Page): Promise<void> {
  const missing = await page.evaluate(`(() => {
    const rulesOf = (sheet, media = '') => [...sheet.cssRules].flatMap((rule) =>
      rule instanceof CSSMediaRule ? rulesOf(rule, rule.media.mediaText)
        : rule instanceof CSSStyleRule ? [{ key: media + ' ' + rule.selectorText, selector: rule.selectorText }] : [])
    const own = new Set([...document.styleSheets].flatMap((sheet) => rulesOf(sheet)).map(({ key }) => key))
    const all = new CSSStyleSheet()
    all.replaceSync(${JSON.stringify(allStyles)})
    const isShown = (selector) => document.querySelector(selector.replace(/::[\\w-]+/g, '')) !== null
    return rulesOf(all).filter(({ key, selector }) => !own.has(key) && isShown(selector)).map(({ key }) => key)
  })()`)
  assert.deepEqual(missing, [], `${page.url()} lacks styles`)
}

/** Asserts that the page that is open has no horizontal scroll. */
export async function assertNoOverflow(page: Page): Promise<void> {
  const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
  assert.ok(Number(overflow) <= 0, `${page.url()} scrolls ${overflow} pixels to the side`)
}
