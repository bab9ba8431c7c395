// Tags: exhaustive
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { startOnSmallDisk, withoutMounts } from '../support/small-disk.ts'
import { commitFiles, onPush, startPushSite } from '../support/waiting-push.ts'

const mib = 1024 * 1024
const skip = await withoutMounts()

test('a push on whose disk no space is left while it waits is accepted or refused as a whole', {
  skip,
}, async () => {
  await using small = await startOnSmallDisk()
  const { disk, service } = small
  await using site = await startPushSite(service, service.admin, 'site')
  let before = await site.branch('main')
  for (const [index, freeBytes] of [8 * mib, 0].entries()) {
    const file = { '.svc/workflows/ci.yml': onPush(`echo ${index}`) }
    const commit = await commitFiles(site.project, file)
    const push = site.push(['wait'], ['HEAD:main'])
    await push.shows('is queued')
    const run = await mustClaim(service.admin)
    await disk.fill(freeBytes)
    const isReported = await run.report(...wholeRun()).then(
      () => true,
      () => false,
    )
    // Without space for the report of its run, it waits.
    if (isReported) await push.ended
    await disk.empty()
    if (!isReported) await run.report(...wholeRun())
    const { code, text } = await push.ended
    assert.equal(await site.branch('main'), code === 0 ? commit : before, text)
    before = await site.branch('main')
  }
  await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('echo last') })
  const last = site.push(['wait'], ['HEAD:main'])
  await last.shows('is queued')
  const run = await mustClaim(service.admin)
  await run.report(...wholeRun())
  assert.equal((await last.ended).code, 0, last.text())
})
