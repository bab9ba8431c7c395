import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { newId } from '#base/ids.ts'
import { assertAccessible, inEveryView } from '../support/browser.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { begun, jobEnded, mustClaim, runEnded, wholeRun, wrote } from '../support/run-by-hand.ts'
import { type Service, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

let service: Service
let client: PageClient

before(async () => {
  service = await startService()
  await pushFiles(service.admin, 'site', oneStep('true'), { message: 'A <script> & more' })
  client = await logIn(service.url, service.adminToken)
})

after(() => service[Symbol.asyncDispose]())

async function startRun() {
  const { body } = await service.admin.post('/repos/site/workflows', {})
  return { number: body.number as number, held: await mustClaim(service.admin) }
}

async function endedRun(...wanted: Parameters<typeof wholeRun>): Promise<number> {
  const { number, held } = await startRun()
  await held.report(...wholeRun(...wanted))
  return number
}

test('runs are listed with their state, commit and cause, and filtered', async () => {
  const number = await endedRun('failure')
  const { status, text } = await client.get('/r/site/runs')
  assert.equal(status, 200)
  assert.match(text, new RegExp(`href="/r/site/runs/${number}">.svc/workflows/ci.yml<`))
  assert.match(text, /class="hidden">Failed</)
  assert.match(text, /<b>admin<\/b> started it/)
  assert.match(text, /aria-label="Last runs, oldest first: [^"]*failed/)
  assert.match((await client.get('/r/site/runs?status=queued')).text, /No matching runs/)
  const refused = await client.get('/r/site/runs?status=other')
  assert.equal(refused.status, 400)
  assert.match(
    refused.text,
    /must be one of queued, running, success, failure, cancelled, timed_out\./,
  )
  assert.match((await client.get('/r/site/runs?branch=main')).text, /Failed/)
  assert.equal((await client.get('/r/site/runs?cursor=x')).status, 400)
})

test('older runs are on the next page', async () => {
  for (let run = 0; run < 31; run++) await service.admin.post('/repos/site/workflows', {})
  const { text } = await client.get('/r/site/runs?status=queued')
  const [, older = ''] = /rel="next" href="([^"]+)"/.exec(text) ?? []
  const next = await client.get(`/r/site/runs${older.replaceAll('&amp;', '&')}`)
  assert.equal(next.text.match(/<li class="row run-row/g)?.length, 1)
  const { body } = await service.admin.get('/repos/site/workflows?status=queued&limit=100')
  for (const { id } of body) await service.admin.post(`/repos/site/workflows/${id}/cancel`)
})

test('a failed run shows first what failed, its last lines, and the last success', async () => {
  const green = await endedRun('success', 'fine\n')
  const number = await endedRun(
    'failure',
    'start\nmore\n\x1b[31mError: <b>no</b>\x1b[0m\n  at line 3\n',
  )
  const { text } = await client.get(`/r/site/runs/${number}`)
  const [digest = ''] = /<section class="digest">[\s\S]*?<\/section>/.exec(text) ?? []
  assert.match(digest, /failed in Only/)
  assert.match(digest, /Exit code 1 after 3 s/)
  assert.match(digest, new RegExp(`href="/r/site/runs/${green}">run ${green}`))
  assert.match(digest, /<span class="ansi-red">Error: &lt;b&gt;no&lt;\/b&gt;<\/span>/)
  assert.doesNotMatch(digest, /start/)
  assert.match(text, /<details class="card step" id="step-0"[^>]* open>/)
  assert.match(text, /<li id="s0-L4">/)
  assert.match(text, /aria-label="steps: Only failed, 3 s"/)
})

test('a pushed run is listed by its commit, and has each fault of its file on a line', async () => {
  const files = {
    '.svc/workflows/ci.yml': 'on: push\nsteps:\n  - uses: a/b@v1\n  - run: 1\n    x: 2\n',
  }
  await pushFiles(service.admin, 'faulty', files, { message: 'A <script> & more' })
  const { text } = await client.get('/r/faulty/runs')
  assert.match(text, /href="\/r\/faulty\/runs\/1">A &lt;script&gt; &amp; more</)
  const run = await client.get('/r/faulty/runs/1')
  assert.match(run.text, /The workflow cannot run<\/h2>\s*<ul><li>[^<]*:3:[^<]*<\/li><li>[^<]*:5:/)
  assert.equal(run.text.match(/ci\.yml:3:/g)?.length, 1)
  assert.doesNotMatch(run.text, /Run failed jobs again|This run had no steps/)
})

test('a failed run shows the command for a shell to its owners, while its workspace is kept', async () => {
  const { number, held } = await startRun()
  const workspace = { id: newId(), job: 'steps', keptSeconds: 60, holder: 'the-secret-of-a-runner' }
  await held.own.post(`${held.path}/workspaces`, workspace)
  await held.report(...wholeRun('failure'))
  const command = new RegExp(`<code>svc runs shell site ${number}</code>`)
  assert.match((await client.get(`/r/site/runs/${number}`)).text, command)
  const member = await service.client({
    username: 'member',
    permissions: ['repo:read', 'workflow:read', 'workflow:trigger', 'secrets:write'],
  })
  await service.admin.post('/repos/site/collaborators', { username: 'member' })
  const other = await logIn(service.url, member.token)
  const page = await other.get(`/r/site/runs/${number}`)
  assert.equal(page.status, 200)
  assert.doesNotMatch(page.text, command)
  const removed = { holder: workspace.holder, workspaces: [], removed: [workspace.id] }
  await service.admin.post('/runner/shells/claim', { ...removed, waitSeconds: 0 })
  assert.doesNotMatch((await client.get(`/r/site/runs/${number}`)).text, command)
})

test('summaries of steps are documents, those of many steps text', async () => {
  const { number, held } = await startRun()
  const summary =
    '# Result\n\n<script>alert(1)</script>\n\n[log](docs/log.md)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n'
  const jobs = Array.from({ length: 21 }, (_, job) => ({ job, id: `job-${job}`, summary }))
  await held.report(
    ...jobs.flatMap((job) => [...begun(job), ...jobEnded('success', job)]),
    runEnded(),
  )
  const { text } = await client.get(`/r/site/runs/${number}`)
  const sections = text.match(/<section class="card step-summary">[\s\S]*?<\/section>/g) ?? []
  assert.equal(sections.length, 21)
  assert.ok(text.lastIndexOf('step-summary') < text.indexOf('id="run-steps"'), 'below the logs')
  const [first = ''] = sections
  assert.match(first, /Summary of job-0 › Only[\s\S]*<h2 id="u-result"><a [^>]*><\/a>Result<\/h2>/)
  assert.match(first, /<td>1<\/td>/)
  assert.match(first, /href="\/r\/site\/src\/[0-9a-f]{40}:docs\/log\.md"/)
  assert.doesNotMatch(first, /<script/)
  assert.match(sections[19] ?? '', /<div class="prose">/)
  assert.match(sections[20] ?? '', /<pre tabindex="0"># Result/)
})

test('of a long log, the last lines are shown, with a link to all', async () => {
  const lines = Array.from({ length: 2500 }, (_, index) => `line ${index + 1}\n`).join('')
  const number = await endedRun('failure', lines)
  const { text } = await client.get(`/r/site/runs/${number}`)
  assert.match(text, /500 earlier lines are not shown here/)
  assert.match(text, /start="501"[^>]*><li id="s0-L501">line 501</)
  assert.match(text, new RegExp(`href="/r/site/runs/${number}/log\\?step=0">All 2,500 lines`))
  const plain = await client.get(`/r/site/runs/${number}/log?step=0&plain`)
  assert.deepEqual(
    [plain.text, plain.headers.get('content-type')],
    [lines, 'text/plain; charset=utf-8'],
  )
})

test('the pages of a long log have each line once, and the page of a line has it', async () => {
  const lines = Array.from({ length: 50_000 }, (_, index) => `line ${index + 1}`)
  // Long lines make pages of fewer lines.
  lines.splice(30_000, 200, ...Array.from({ length: 200 }, () => 'long '.repeat(600)))
  const { number, held } = await startRun()
  await held.report(...begun())
  for (let from = 0; from < lines.length; from += 5000)
    await held.report(wrote(`${lines.slice(from, from + 5000).join('\n')}\n`))
  await held.report(...jobEnded(), runEnded())
  const path = `/r/site/runs/${number}/log`
  const linesOf = (text: string) =>
    [...text.matchAll(/<li id="L(\d+)">(?:<span class="soft">.*?<\/span>)?([^<]*)<\/li>/g)].map(
      ([, line, content = '']) => [Number(line), content] as const,
    )
  const found: (readonly [number, string])[] = []
  for (let next = `${path}?step=0`; next !== ''; ) {
    const { text } = await client.get(next)
    const some = linesOf(text)
    const [, rel = ''] = /rel="next" href="([^"]*)"/.exec(text) ?? []
    next = rel && path + rel.replaceAll('&amp;', '&')
    assert.ok(some.length > 0 && some.length <= 2000, `${some.length} lines`)
    assert.ok(text.length < 700_000, `${text.length} characters`)
    assert.match(text, new RegExp(`<ol class="log" start="${some[0]?.[0]}"`))
    found.push(...some)
  }
  assert.deepEqual(
    found,
    lines.map((line, index) => [index + 1, line]),
  )
  for (const line of [1, 2000, 2001, 30_025, 49_999, 50_000]) {
    const { text } = await client.get(`${path}?step=0&at=${line}`)
    assert.ok(text.includes(`<li id="L${line}">`), String(line))
    const [, before] = /at=(\d+)">the page before/.exec(text) ?? []
    const [first = 0] = linesOf(text)[0] ?? []
    assert.equal(before === undefined ? 1 : Number(before) + 1, first)
  }
  for (const at of ['end', '99999999']) {
    const { text } = await client.get(`${path}?at=${at}`)
    assert.match(
      text,
      /line 50000<\/li><li [^>]*>[\s\S]*<\/ol><\/div><p class="log-note" id="end">Succeeded/,
    )
  }
  for (const at of ['0', '-5', 'abc', '1e400'])
    assert.equal((await client.get(`${path}?step=0&at=${at}`)).status, 400, at)
  assert.equal((await client.get(`${path}?step=0&at=`)).status, 200)
})

test('a run is cancelled, and run again; its earlier attempts can be seen', async () => {
  const { number, held } = await startRun()
  await held.report(...begun(), wrote('first try\n'))
  const running = await client.get(`/r/site/runs/${number}`)
  assert.match(running.text, /data-live="\/r\/site\/runs\/\d+\/live\?after=\d+"/)
  const cancelled = await client.post(`/r/site/runs/${number}/cancel`, {})
  assert.deepEqual([cancelled.status, cancelled.location], [303, `/r/site/runs/${number}`])
  await held.report(...jobEnded('failure'), runEnded('cancelled'))
  assert.equal((await client.post(`/r/site/runs/${number}/cancel`, {})).status, 409)
  assert.equal((await client.post(`/r/site/runs/${number}/rerun`, { jobs: 'failed' })).status, 303)
  const again = await mustClaim(service.admin)
  await again.report(...wholeRun('success', 'second try\n'))
  const latest = await client.get(`/r/site/runs/${number}`)
  assert.match(latest.text, /second try/)
  assert.match(latest.text, /\?attempt=1">1 cancelled</)
  const former = await client.get(`/r/site/runs/${number}?attempt=1`)
  assert.match(former.text, /first try/)
  assert.doesNotMatch(former.text, /second try|Run again/)
  assert.match((await client.get(`/r/site/runs/${number}/log?attempt=1`)).text, /first try/)
  assert.equal((await client.get(`/r/site/runs/${number}?attempt=9`)).status, 404)
})

const withInputs = `
on:
  push:
  workflow_dispatch:
    inputs:
      version: { required: true, description: 'Of the <release>' }
      target: { type: choice, options: [staging, production], default: production }
      dry: { type: boolean, default: true }
      count: { type: number, default: 3 }
jobs:
  release: { runs-on: ubuntu-latest, steps: [{ run: echo }] }
`

test('the form of a run has the inputs of the file at the branch, and problems at their fields', async () => {
  const { admin } = service
  const changes = [{ path: '.svc/workflows/release.yml', content: withInputs }]
  const commit = { branch: 'release', start: 'main', message: 'Release [skip ci]', changes }
  assert.equal((await admin.post('/repos/site/commits', commit)).status, 201)
  const form = '/r/site/start-run'
  assert.doesNotMatch((await client.get(form)).text, /release\.yml/)
  const { text } = await client.get(`${form}?branch=release&file=release.yml`)
  for (const part of [
    /name="input-version" required/,
    /Of the &lt;release&gt;/,
    /<option value="staging">staging<\/option><option value="production" selected>/,
    /<select[^>]*name="input-dry"[^>]*><option value="false">false<\/option><option value="true" selected>/,
    /name="input-count"[^>]* value="3"/,
  ])
    assert.match(text, part)
  const fields = { branch: 'release', file: 'release.yml', 'input-version': '2' }
  const bad = await client.post(form, { ...fields, 'input-count': 'many', 'input-version': '' })
  assert.equal(bad.status, 400)
  const faultAt = (name: string) =>
    new RegExp(
      `name="input-${name}"[^>]*aria-invalid="true"[\\s\\S]*?class="field-problem"[^>]*>[^\\n]*${name}`,
    )
  assert.match(bad.text, faultAt('version'))
  assert.match(bad.text, faultAt('count'))
  assert.match(bad.text, /value="many"/)
  const { status, location } = await client.post(form, { ...fields, 'input-count': '7' })
  assert.equal(status, 303)
  const number = /\/runs\/(\d+)$/.exec(location ?? '')?.[1]
  const { body } = await admin.get(`/repos/site/workflows/${number}`)
  assert.deepEqual(body.inputs, { version: '2', target: 'production', dry: true, count: 7 })
  await admin.post(`/repos/site/workflows/${number}/cancel`)
  const tagged = await admin.put('/repos/site/refs?ref=refs/tags/v1.0', { target: 'release' })
  assert.equal(tagged.status, 201)
  const byTag = await client.get(`${form}?branch=v1.0`)
  assert.match(byTag.text, /of <code>v1\.0<\/code>. A tag is written as <code>refs\/tags\/v1\.0</)
  assert.match((await client.get(`${form}?branch=refs/tags/v1.0`)).text, />release\.yml</)
  const missing = await client.post(form, { branch: 'no"branch', file: '' })
  assert.equal(missing.status, 422)
  assert.match(missing.text, /role="alert"[\s\S]*value="no&quot;branch"/)
})

test('runs are found by their result and their workflow', async () => {
  await endedRun()
  const { body } = await service.admin.get('/repos/site/workflows')
  const numbers = async (query: string) =>
    [...(await client.get(`/r/site/runs?${query}`)).text.matchAll(/runs\/(\d+)">/g)].map(toNumber)
  for (const [state, key] of [
    ['success', 'conclusion'],
    ['failure', 'conclusion'],
    ['cancelled', 'conclusion'],
  ] as const) {
    const expected = body.filter((run: Record<string, string>) => run[key] === state)
    assert.deepEqual(await numbers(`status=${state}`), expected.slice(0, 30).map(numberOf), state)
  }
  const [{ name }] = body
  const named = body.filter((run: { name: string }) => run.name === name)
  assert.deepEqual(
    await numbers(new URLSearchParams({ workflow: name }).toString()),
    named.slice(0, 30).map(numberOf),
  )
  assert.deepEqual(await numbers('workflow=nope'), [])
})

const toNumber = ([, number]: RegExpMatchArray) => Number(number)
const numberOf = ({ number }: { number: number }) => number

test('those who may only read have no buttons, and those who may not read have no runs', async () => {
  const number = await endedRun()
  const login = async (permissions: string[]) => {
    const { body } = await service.admin.post('/tokens', {
      name: 'x',
      username: 'reader',
      permissions,
    })
    return logIn(service.url, body.token)
  }
  await service.admin.post('/repos/site/collaborators', { username: 'reader' })
  const reader = await login(['repo:read', 'workflow:read'])
  for (const path of ['/r/site/runs', `/r/site/runs/${number}`]) {
    const { status, text } = await reader.get(path)
    assert.equal(status, 200)
    assert.doesNotMatch(text, /method="post" action="\/r\//)
  }
  const outsider = await login(['repo:read'])
  for (const path of ['runs', `runs/${number}`, `runs/${number}/log`, `runs/${number}/live`])
    assert.equal((await outsider.get(`/r/site/${path}`)).status, 403)
  for (const path of ['runs/999999', 'runs/0', 'runs/x', 'runs/999999/log'])
    assert.equal((await client.get(`/r/site/${path}`)).status, 404)
})

test('the pages of runs are accessible and quiet in every view', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  const output =
    'one\n::group::Two\n\x1b[33mthree\x1b[0m \x1b[41mfour\x1b[0m \x1b[35mfive\x1b[36m\n::endgroup::\n'
  const number = await endedRun('failure', output)
  const { number: running, held } = await startRun()
  await held.report(...begun(), wrote('busy\n'))
  try {
    await inEveryView({ url: service.url, token: service.adminToken }, async (page) => {
      // Renews the lease of the run.
      await held.report(wrote('busy\n'))
      for (const path of ['runs', `runs/${number}`, `runs/${running}`, `runs/${number}/log`]) {
        await page.goto(`/r/site/${path}`)
        await assertAccessible(page)
      }
    })
  } finally {
    await held.report(...jobEnded(), runEnded())
  }
})
