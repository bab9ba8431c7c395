import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Service, startService } from '../support/service.ts'
import { logOf, pushFiles, runToEnd } from '../support/workflow-site.ts'

let service: Service

before(async () => {
  service = await startService({ env: { SVC_RUNNER: 'on', SVC_ARTIFACT_MAX: '300KiB' } })
})

after(() => service[Symbol.asyncDispose]())

async function runFile(name: string, text: string) {
  await pushFiles(service.admin, name, { '.svc/workflows/ci.yml': text })
  const run = await runToEnd(service.admin, name)
  return { run, log: await logOf(service.admin, name, run.id) }
}

const cached = `
steps:
  - uses: actions/cache@v4
    id: cache
    with: { path: deps, key: 'deps/ä 1' }
  - run: |
      echo "hit: \${{ steps.cache.outputs.cache-hit }}"
      ls deps || mkdir deps
      head -c 3000000 /dev/urandom >deps/random
`

test('a cache goes from run to run by way of the server', async () => {
  const first = await runFile('cached', cached)
  assert.equal(first.run.conclusion, 'success', first.log)
  assert.match(first.log, /Saved .* as the cache deps\/ä 1/)
  const second = await runFile('cached', cached)
  assert.match(second.log, /Restored the cache deps\/ä 1\.[\s\S]*hit: true\nrandom\n/)
  assert.match(second.log, /not saved again/)
})

test('artifacts go from job to job by way of the server, and one that is too large is refused', async () => {
  const { run, log } = await runFile(
    'artifacts',
    `
jobs:
  build:
    steps:
      - run: mkdir dist && echo built >dist/a && head -c 3000000 /dev/urandom >big
      - uses: actions/upload-artifact@v4
        id: saved
        with: { name: site, path: dist, retention-days: 3 }
      - run: echo "outputs \${{ join(steps.saved.outputs.*, ' ') }}"
      - uses: actions/upload-artifact@v4
        id: again
        continue-on-error: true
        with: { name: site, path: dist }
      - uses: actions/upload-artifact@v4
        id: large
        continue-on-error: true
        with: { name: large, path: big }
      - run: echo "again \${{ steps.again.outcome }}, large \${{ steps.large.outcome }}"
  use:
    needs: build
    steps:
      - uses: actions/download-artifact@v4
        id: missing
        continue-on-error: true
        with: { name: none }
      - uses: actions/download-artifact@v4
        with: { name: site, path: got }
      - run: cat got/a
`,
  )
  assert.equal(run.conclusion, 'success', log)
  assert.match(log, /again failure, large failure/)
  assert.match(log, /This run has no artifact none; it has site\./)
  assert.match(log, /use \| built/)
  const path = `/repos/artifacts/workflows/${run.id}/artifacts`
  const [{ id, sha256 }] = (await service.admin.get(path)).body
  const url = `${service.url}/r/artifacts/runs/${run.number}/artifacts/${id}`
  assert.match(log, new RegExp(`outputs ${id} ${url} ${sha256}$`, 'm'))
})
