import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { chromium } from 'playwright-core'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { programs, without } from '../support/programs.ts'

let service: InProcess

before(async () => {
  service = await startInProcess()
})

after(() => service[Symbol.asyncDispose]())

test('the documentation page shows every route and loads nothing', {
  skip: without('chromium'),
}, async () => {
  const executablePath = programs.chromium.find() ?? ''
  const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking']
  const browser = await chromium.launch({ executablePath, args })
  try {
    const page = await browser.newPage()
    const requested: string[] = []
    const faults: string[] = []
    page.on('request', (request) => requested.push(request.url()))
    page.on('pageerror', (error) => faults.push(error.message))
    page.on('console', (message) => faults.push(message.text()))
    await page.goto(`${service.url}/docs`)
    const text = await page.innerText('main')
    for (const { method, path } of service.routes) {
      const shown = path.replace(/\*$/, '')
      assert.ok(
        text.includes(`${method} ${shown}`) || text.includes(`${method}${shown}`),
        `${method} ${shown}`,
      )
    }
    await page.click('nav a[href="#problems"]')
    assert.deepEqual(requested, [`${service.url}/docs`])
    assert.deepEqual(faults, [])
    const broken = await page.evaluate(
      `[...document.querySelectorAll('a[href^="#"]')].filter((link) => !document.querySelector(link.hash)).length`,
    )
    assert.equal(broken, 0)
  } finally {
    await browser.close()
  }
})
