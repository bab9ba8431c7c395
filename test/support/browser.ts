import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { programs } from './programs.ts'

/** Starts Debian's Chromium. */
export function startBrowser(): Promise<Browser> {
  const executablePath = programs.chromium.find() ?? ''
  const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking']
  return chromium.launch({ executablePath, args })
}

/** How a person may see a page. */
export type Eyes = { width: number; scheme: 'light' | 'dark'; hasScripts: boolean }

/** The combinations in which every page must be whole. */
export const allEyes: Eyes[] = [1360, 320].flatMap((width) =>
  (['light', 'dark'] as const).flatMap((scheme) =>
    [true, false].map((hasScripts) => ({ width, scheme, hasScripts })),
  ),
)

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
