import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Browser, chromium, type Page } from 'playwright-core'
import { assertAccessible, type Eyes, openWindow, startBrowser } from '../support/browser.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { programs, without } from '../support/programs.ts'
import { sampleOf } from '../support/rounds.ts'
import { begun, jobEnded, mustClaim, runEnded, wholeRun, wrote } from '../support/run-by-hand.ts'
import { type Service, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

let service: Service
let browser: Browser

const skip = without('chromium')

before(async () => {
  service = await startService({ env: { SVC_RUNNER: 'off' } })
  const { admin } = service
  await pushFiles(admin, 'site', oneStep('true'))
  const lines = Array.from({ length: 300 }, (_, index) => `line ${index + 1}`)
  const changes = [
    { path: 'a.txt', content: `${lines.join('\n')}\n` },
    { path: 'README.md', content: `# Top\n\n${'text\n\n'.repeat(200)}## Größe & Form\n\nEnd\n` },
  ]
  await admin.post('/repos/site/commits', { branch: 'main', message: 'Files', changes })
  await admin.post('/repos/site/workflows', {})
  await (await mustClaim(admin)).report(...wholeRun('failure', `${lines.join('\n')}\n`))
  if (!skip) browser = await startBrowser()
})

after(async () => {
  await browser?.close()
  await service[Symbol.asyncDispose]()
})

async function inWindow(
  use: (page: Page) => Promise<void>,
  { hasScripts = true, width = 1280 }: Partial<Eyes> = {},
): Promise<void> {
  const view = { width, scheme: 'light', hasScripts } as const
  const { url, adminToken: token } = service
  const { context, page, faults } = await openWindow(browser, { ...view, url, token })
  await use(page)
  assert.deepEqual(faults, [])
  await context.close()
}

/** Clicks on the number beside a line. */
async function clickNumber(page: Page, id: string, modifiers: 'Shift'[] = []): Promise<void> {
  await page.locator(`[id="${id}"]`).click({ position: { x: 30, y: 8 }, modifiers })
}

const hashOf = (page: Page) => new URL(page.url()).hash
const picked = (page: Page) => page.locator('.picked').count()

test('chosen lines stay chosen in the permalink, by its link and by its key', { skip }, () =>
  inWindow(async (page) => {
    await page.goto('/r/site/src/main:a.txt')
    await clickNumber(page, 'L3')
    await clickNumber(page, 'L5', ['Shift'])
    assert.equal(hashOf(page), '#L3-L5')
    await page.keyboard.press('y')
    await page.waitForURL(/src\/[0-9a-f]{40}:a\.txt#L3-L5$/)
    assert.equal(await picked(page), 3)
    await page.goto('/r/site/src/main:a.txt#L7-L8')
    await page.getByText('Permalink').click()
    await page.waitForURL(/src\/[0-9a-f]{40}:a\.txt#L7-L8$/)
    assert.equal(await picked(page), 2)
  }),
)

test('lines of logs are chosen and linked, in a run and in its whole log', { skip }, () =>
  inWindow(async (page) => {
    await page.goto('/r/site/runs/1')
    await clickNumber(page, 's0-L250')
    await clickNumber(page, 's0-L252', ['Shift'])
    assert.equal(hashOf(page), '#s0-L250-L252')
    await page.locator('#step-0 > summary').click()
    await page.reload()
    assert.equal(await picked(page), 3)
    assert.ok(await page.locator('[id="s0-L251"]').isVisible())
    await page.goto('/r/site/runs/1/log')
    await clickNumber(page, 'L9')
    assert.equal(hashOf(page), '#L9')
    await page.reload()
    assert.equal(await page.locator('#L9.picked').count(), 1)
  }),
)

test('a long log has pages of bounded height, and a link to any of its lines leads to it', {
  ...exhaustive,
  skip,
}, async () => {
  const lines = Array.from(
    { length: 50_000 },
    (_, index) => `line ${index + 1}${index % 10 === 0 ? ' and more'.repeat(15) : ''}`,
  )
  lines.splice(49_900, 3, '::group::Folded', 'within', '::endgroup::')
  const { body } = await service.admin.post('/repos/site/workflows', {})
  const held = await mustClaim(service.admin)
  await held.report(...begun())
  for (let from = 0; from < lines.length; from += 5000)
    await held.report(wrote(`${lines.slice(from, from + 5000).join('\n')}\n`))
  const run = `/r/site/runs/${body.number}`
  for (const width of sampleOf([390, 1280], 1))
    await inWindow(
      async (page) => {
        const assertBounded = async () => {
          const height = Number(await page.evaluate('document.documentElement.scrollHeight'))
          assert.ok(height > 900 && height < 200_000, `${page.url()} has ${height} pixels`)
        }
        const isInView = (id: string) =>
          until(`${id} is in view`, () =>
            page.evaluate<boolean>(`(() => {
            const { top, bottom } = document.getElementById('${id}')?.getBoundingClientRect() ?? {}
            return bottom > 0 && top < innerHeight
          })()`),
          )
        // A live run is open at its end.
        await page.goto(run)
        await isInView('s0-L50000')
        await assertBounded()
        for (const [hash, leadsTo, ...shown] of [
          ['#s0-L7', `${run}/log?step=0&at=7#L7`, 'L7'],
          ['#s0-L30100-L30102', `${run}/log?step=0&at=30100#L30100-L30102`, 'L30101'],
          ['#s0-L49950', `${run}#s0-L49950`, 's0-L49950'],
          ['#s0-L49901', `${run}#s0-L49901`, 's0-L49901'],
          ['#s0-L49902', `${run}#s0-L49902`, 's0-L49902'],
          // The end of a group is a line without text there.
          ['#s0-L49903', `${run}/log?step=0&at=49903#L49903`, 'L49904'],
        ] as const) {
          await page.goto('about:blank')
          await page.goto(run + hash)
          await page.waitForURL(`${service.url}${leadsTo}`)
          for (const id of shown) await isInView(id)
          await page.locator(`.picked`).first().waitFor()
          await assertBounded()
        }
        // From one page of the log to a line of another one.
        await page.goto(`${run}/log?step=0#L9`)
        await page.evaluate("location.hash = '#L20000'")
        await page.waitForURL(`${service.url}${run}/log?step=0&at=20000#L20000`)
        await isInView('L20000')
        // Nothing is at a line beyond the end.
        await page.goto(`${run}/log?step=0#L60000`)
        await page.waitForURL(`${service.url}${run}/log?step=0&at=60000#L60000`)
        await page.locator('#L50000').waitFor()
      },
      { width },
    )
  await held.report(...jobEnded(), runEnded())
})

test('the name of a heading finds it, also without scripts', { skip }, async () => {
  for (const hasScripts of [true, false])
    await inWindow(
      async (page) => {
        for (const address of [
          '/r/site#größe--form',
          '/r/site/src/main:README.md#gr%C3%B6%C3%9Fe--form',
        ]) {
          await page.goto(address)
          const { y = -1 } = (await page.getByText('Größe & Form').boundingBox()) ?? {}
          assert.ok(y >= 0 && y < 900, `${address}: the heading is at ${y}`)
        }
      },
      { hasScripts },
    )
})

test('alerts, footnotes, tables and notebooks are accessible, and their sources are shown', {
  ...exhaustive,
  skip,
}, async () => {
  const png = 'iVBORw0KGgo='
  const notebook = {
    nbformat: 4,
    metadata: { kernelspec: { language: 'python' } },
    cells: [
      { cell_type: 'markdown', source: ['# Figures\n', 'Some *text*.'] },
      {
        cell_type: 'code',
        execution_count: 1,
        source: 'print("a")',
        outputs: [
          { output_type: 'stream', text: 'a\n' },
          { data: { 'text/html': '<table><tr><td>7</td></tr></table><script>alert(1)</script>' } },
          { data: { 'image/png': png, 'text/plain': '<Figure>' } },
        ],
      },
    ],
  }
  const files = {
    'notes.md': '> [!NOTE]\n> Noted[^1].\n\n> [!WARNING]\n> Warned.\n\n[^1]: The note.\n',
    'data.csv': `name,value\n${'one,"1, or\n2"\n'.repeat(30)}`,
    'book.ipynb': JSON.stringify(notebook),
  }
  const changes = Object.entries(files).map(([path, content]) => ({ path, content }))
  await service.admin.post('/repos/site/commits', { branch: 'main', message: 'Documents', changes })
  for (const width of [390, 1280])
    await inWindow(
      async (page) => {
        for (const [file, shown] of [
          ['notes.md', '.prose .alert-note :text("Noted")'],
          ['data.csv', '.prose tr#L4 td:text("1, or")'],
          ['book.ipynb', '.prose td:text("7")'],
        ] as const) {
          await page.goto(`/r/site/src/main:${file}`)
          assert.ok(await page.locator(shown).first().isVisible(), file)
          await assertAccessible(page)
          await page.getByRole('link', { name: 'Source' }).click()
          await page.locator('pre.code').waitFor()
        }
      },
      { width },
    )
})

test('a text is copied over plain HTTP, too, and the button says so when it is', {
  skip,
}, async () => {
  const { port } = new URL(service.url)
  // Browsers trust loopback addresses, but not a name that leads to one.
  const plain = await chromium.launch({
    executablePath: programs.chromium.find() ?? '',
    args: ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP plain.test 127.0.0.1'],
  })
  try {
    const view = { width: 390, scheme: 'dark', hasScripts: true } as const
    const url = `http://plain.test:${port}`
    const { page, context } = await openWindow(plain, { ...view, url })
    const { adminToken: token } = service
    await page.goto('/-/login')
    await page.locator('#token').fill(token)
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.goto('/r/site')
    assert.equal(await page.evaluate('isSecureContext'), false)
    const copy = page.locator('.copy-field button.copy').first()
    await copy.click()
    await page.locator('button.copied[aria-label="Copied"]').waitFor()
    await page.locator('.search input').focus()
    await page.keyboard.press('Control+V')
    assert.match(await page.locator('.search input').inputValue(), /\/r\/site$/)
    await context.close()
  } finally {
    await plain.close()
  }
})
