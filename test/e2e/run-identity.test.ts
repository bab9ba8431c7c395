import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import { createPostgresDatabase } from '../support/databases.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { createClient, type Service, startService } from '../support/service.ts'
import { startStoreSite } from '../support/store-site.ts'
import { logOf, pushFiles, runToEnd } from '../support/workflow-site.ts'

const withNetwork = { SVC_RUNNER: 'on', SVC_SANDBOX_NETWORK: 'full' }

const publishing = `
permissions: { contents: write, id-token: write }
env: { TOKEN: '\${{ github.token }}' }
jobs:
  publish:
    runs-on: ubuntu-latest
    steps:
      - name: push
        run: |
          remote="\${GITHUB_SERVER_URL/:\\/\\//://x-access-token:$TOKEN@}/repos/$SVC_REPOSITORY.git"
          echo built >built.txt
          git add built.txt
          git -c user.name=run -c user.email=run@example.com commit --quiet --message Built
          git push --quiet "$remote" HEAD:refs/heads/built
          git ls-remote "$remote" refs/heads/built | cut -f 2
          echo "$remote"
      - name: id
        run: |
          curl -sSf -H "Authorization: bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN" \\
            "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=step" >answer.json
          # Without this, the token would be in the log.
          value=$(sed 's/.*"value":"\\([^"]*\\)".*/\\1/' answer.json)
          echo "claims: $(echo "$value" | cut -d . -f 2)"
      - name: api
        run: |
          status() { curl -s -o /dev/null -w '%{http_code}\\n' -H "Authorization: Bearer $TOKEN" "$GITHUB_API_URL$1"; }
          status "/repos/$SVC_REPOSITORY"; status /repos; status /repos/other
`

/** Runs a workflow whose steps use the identity of their job. */
async function runSteps({ admin }: Pick<Service, 'admin'>): Promise<void> {
  await pushFiles(admin, 'other', { 'a.txt': 'a' })
  await pushFiles(admin, 'site', { '.svc/workflows/publish.yml': publishing })
  await admin.patch('/repos/site', { runTokens: 'write' })
  const run = await runToEnd(admin, 'site')
  const log = await logOf(admin, 'site', run.id)
  assert.equal(run.conclusion, 'success', log)
  const outputOf = (name: string) =>
    run.result.steps.find((step: { name: string }) => step.name === name).output
  assert.match(outputOf('push'), /^refs\/heads\/built\nhttp:\/\/x-access-token:\*\*\*@/)
  assert.equal(outputOf('api'), '200\n403\n404\n')
  const [, part = ''] = /claims: (\S+)/.exec(outputOf('id')) ?? []
  const claims = JSON.parse(Buffer.from(part, 'base64url').toString())
  assert.deepEqual([claims.aud, claims.run_id], ['step', run.id])
  assert.doesNotMatch(log, /svcrun_/)
  const [push] = (await admin.get('/repos/site/pushes')).body
  assert.equal(push.actor.username, `run-${run.number}[bot]`)
}

const networkOptions = { skip: without('bubblewrap') }

test(
  'a step pushes, calls the API and gets an ID token with the identity of its job',
  networkOptions,
  async () => {
    await using service = await startService({ env: withNetwork })
    await runSteps(service)
  },
)

test('so it does on PostgreSQL', {
  ...exhaustive,
  skip: without('bubblewrap') || without('postgres'),
}, async () => {
  const { url, drop } = await createPostgresDatabase()
  {
    await using service = await startService({ env: { ...withNetwork, SVC_DATABASE_URL: url } })
    await runSteps(service)
  }
  await drop()
})

describe('on several nodes', { ...exhaustive, skip: without('postgres') }, () => {
  test('the tokens of a job work on every node, and end on all of them', async () => {
    const issuer = 'https://git.example.com'
    await using site = await startStoreSite({ SVC_BASE_URL: issuer, SVC_RUNNER: 'off' })
    await using folder = await temporaryFolder()
    await using other = await startService({ env: site.env, dataDir: `${folder.path}/node` })
    const { admin } = site.service
    const text = 'permissions: write-all\nsteps: [{ run: x }]\n'
    await pushFiles(admin, 'site', { '.svc/workflows/ci.yml': text })
    await admin.post('/repos/site/workflows', {})
    const run = await mustClaim(admin)
    const [identity] = run.plan.identities
    const elsewhere = createClient(other.url, identity?.token ?? '')
    assert.equal((await elsewhere.get('/repos/site')).status, 200)
    assert.equal(
      (await elsewhere.put('/repos/site/refs?ref=refs/heads/x', { target: 'main' })).status,
      403,
    )
    await admin.patch('/repos/site', { runTokens: 'write' })
    const made = await elsewhere.put('/repos/site/refs?ref=refs/heads/x', { target: 'main' })
    assert.equal(made.status, 201, made.text)
    const { url, token } = identity?.idTokens ?? assert.fail()
    assert.ok(url.startsWith(`${issuer}/`))
    // Each node issues a token, which the keys of the other one verify.
    const address = url.slice(issuer.length)
    for (const [from, by] of [
      [site.service, other],
      [other, site.service],
    ] as const) {
      const { body } = await createClient(from.url, token).get(address)
      const keys = createRemoteJWKSet(new URL(`${by.url}/.well-known/jwks`))
      const { payload } = await jwtVerify(body.value, keys, { issuer, audience: issuer })
      assert.equal(payload.run_id, run.plan.runId)
    }
    await run.report(...wholeRun())
    for (const one of [identity?.token, token])
      assert.equal((await createClient(other.url, one ?? '').get('/repos/site')).status, 401)
  })
})
