// Tags: exhaustive
import { test } from 'node:test'
import { assertAccessibleInEveryView } from '../support/browser.ts'
import { logIn } from '../support/page-client.ts'
import { addressOf, openPageSite, shown } from '../support/page-site.ts'
import { without } from '../support/programs.ts'

test('every page is accessible, styled and quiet in every view', {
  skip: without('chromium'),
}, async () => {
  await using site = await openPageSite()
  const cookie = (await logIn(site.url, site.adminToken)).cookie()
  const paths: string[] = []
  for (const page of shown) {
    const path = addressOf(page, site)
    const { headers, body } = await fetch(site.url + path, { headers: { cookie } })
    await body?.cancel()
    // The log of a run grows until the run ends.
    const isComplete = headers.has('content-length')
    if (isComplete && headers.get('content-type')?.startsWith('text/html')) paths.push(path)
  }
  await assertAccessibleInEveryView(site, paths)
})
