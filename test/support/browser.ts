import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { programs } from './programs.ts'
import { isSoak } from './rounds.ts'

/** Starts Debian's Chromium. */
export function startBrowser(): Promise<Browser> {
  const executablePath = programs.chromium.find() ?? ''
  const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking']
  return chromium.launch({ executablePath, args })
}

/** How a person may see a page. */
export type Eyes = { width: number; scheme: 'light' | 'dark'; hasScripts: boolean }

const eight: Eyes[] = [1360, 320].flatMap((width) =>
  (['light', 'dark'] as const).flatMap((scheme) =>
    [true, false].map((hasScripts) => ({ width, scheme, hasScripts })),
  ),
)

/** Two of them, in which each setting occurs. */
const two = eight.filter(
  ({ width, scheme, hasScripts }) =>
    (width === 320) === (scheme === 'dark') && (width === 320) !== hasScripts,
)

/** The combinations in which every page must be whole; without a soak, those that cover every setting. */
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
  // Not by switching scripts off in the browser, where axe could not run either.
  if (!hasScripts)
    await context.route('**/app.js', (route) =>
      route.fulfill({ contentType: 'text/javascript', body: '' }),
    )
  const page = await context.newPage()
  const faults: string[] = []
  page.on('pageerror', (error) => faults.push(error.message))
  page.on('console', (message) => faults.push(message.text()))
  if (token !== undefined) {
    await page.goto('/-/login')
    await page.fill('#token', token)
    await page.click('main button.primary')
    await page.waitForURL((address) => !address.pathname.endsWith('/-/login'))
  }
  return { context, page, faults }
}

/** Opens a window in each view, logged in with the token; nothing may reach the console. */
export async function inEveryView(
  { url, token }: { url: string; token: string },
  walk: (page: Page) => Promise<void>,
): Promise<void> {
  const browser = await startBrowser()
  try {
    for (const eyes of allEyes) {
      const { context, page, faults } = await openWindow(browser, { ...eyes, url, token })
      await walk(page)
      assert.deepEqual(faults, [], page.url())
      await context.close()
    }
  } finally {
    await browser.close()
  }
}

/** Asserts that pages are accessible in every view, and write nothing to the console. */
export function assertAccessibleInEveryView(
  service: { url: string; adminToken: string },
  paths: readonly string[],
): Promise<void> {
  return inEveryView({ url: service.url, token: service.adminToken }, async (page) => {
    for (const path of paths) {
      await page.goto(path)
      await assertAccessible(page)
    }
  })
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Asserts that axe finds nothing on the page that is open, and that it has no horizontal scroll. */
export async function assertAccessible(page: Page): Promise<void> {
  // Evaluated by the debugger, which no policy of the page concerns.
  await page.evaluate(axe)
  const found = await page.evaluate(
    `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
      violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).slice(0, 3).join(' ')))`,
  )
  assert.deepEqual(found, [], page.url())
  const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
  assert.ok(Number(overflow) <= 0, `${page.url()} scrolls ${overflow} pixels to the side`)
}
