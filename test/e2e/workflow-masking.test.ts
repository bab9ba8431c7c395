import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startHostileSite } from '../support/hostile-site.ts'
import { without } from '../support/programs.ts'
import { endOf, logOf, pushFiles } from '../support/workflow-site.ts'

const options = { skip: without('bubblewrap'), timeout: 600_000 }

const plain = 'hünter-2 "quoted" \\ & <4715004>%'
const key = [
  '-----BEGIN KEY-----',
  'MIIEvAIBADANBgkqhkiG',
  '9w0BAQEFAASCBKYwggSi',
  '-----END KEY-----',
]
const derived = 'made-by-the-step-4715005'

const text = `
name: prints its secrets
on: workflow_dispatch
env:
  WHOLE: \${{ secrets.PLAIN }}
jobs:
  leak:
    runs-on: ubuntu-latest
    outputs:
      value: \${{ steps.first.outputs.value }}
    steps:
      - name: The first \${{ secrets.PLAIN }}
        id: first
        run: |
          set +e
          echo "whole: $PLAIN, again: $WHOLE"
          for n in $(seq 0 \${#PLAIN}); do printf %s "\${PLAIN:n:1}"; sleep 0.02; done; echo
          for n in 1 2 3 4 5 6 7 8; do printf "%\${n}s%s" "" "$PLAIN" | base64 -w 0; echo; done
          printf %s "$PLAIN" | base64 -w 0 | fold -w 7 | while read -r part || [ -n "$part" ]; do printf %s "$part"; sleep 0.05; done; echo
          perl -MIO::Handle -e 'STDOUT->autoflush; $_ = $ENV{PLAIN}; s/([^A-Za-z0-9_.~-])/sprintf("%%%02X",ord($1))/ge; print "url: $_\\n"'
          perl -e '$_ = $ENV{PLAIN}; s/(["\\\\])/\\\\$1/g; print "json: {\\"value\\": \\"$_\\"}\\n"'
          echo "$KEY"; echo "$KEY" | sed 's/^/    /'; echo "$KEY" | tr -d '\\n'; echo
          echo "$PLAIN" >&2
          printf '%s' "$PLAIN" "$PLAIN" "$PLAIN"; echo
          derived=${derived.slice(0, 9)}; derived="$derived${derived.slice(9)}"; echo "::add-mask::$derived"; echo "derived: $derived"
          echo "# $PLAIN and $derived" >>"$GITHUB_STEP_SUMMARY"
          echo "value=$PLAIN" >>"$GITHUB_OUTPUT"
          echo "MORE=$PLAIN" >>"$GITHUB_ENV"
          echo "end of \${PLAIN:0:5}"; printf %s "$PLAIN"
      - name: Later \${{ env.MORE }} \${{ steps.first.outputs.value }}
        run: echo "$MORE"; echo "$PLAIN" >>"$GITHUB_ENV"; exit 3
      - name: Fails to begin
        if: always()
        run: echo never
        shell: "\${{ secrets.PLAIN }}"
      - name: Fails in a folder
        if: always()
        working-directory: "\${{ secrets.PLAIN }}"
        run: echo never
`

test('a secret that a run prints in many forms appears nowhere', options, async () => {
  await using site = await startHostileSite({ SVC_LOG_LEVEL: 'debug' })
  const admin = site.admin()
  await pushFiles(admin, 'site', { '.svc/workflows/ci.yml': text })
  await admin.put('/repos/site/secrets/PLAIN', { value: plain })
  await admin.put('/repos/site/secrets/KEY', { value: key.join('\n') })
  const { body } = await admin.post('/repos/site/workflows', {})
  const followed = await admin.get(`/repos/site/workflows/${body.id}/logs?follow=true`)
  const run = await endOf(admin, 'site', body.id)
  const responses = [
    run,
    await logOf(admin, 'site', body.id),
    followed.text,
    (await admin.get('/repos/site/workflows')).text,
    site.service().log(),
  ]
  assert.equal(run.conclusion, 'failure')
  const [first, second] = run.result.steps
  assert.match(first.output, /^whole: \*\*\*, again: \*\*\*\n\*\*\*\n/)
  assert.match(first.output, /^derived: \*\*\*$/m)
  assert.equal(first.name, 'The first ***')
  assert.equal(first.summary, '# *** and ***\n')
  assert.deepEqual([second.exitCode, second.output], [3, '***\n'])
  for (const [index, one] of responses.entries())
    assertClean(`answer ${index}`, JSON.stringify(one))
  assert.equal(await site.service().end('SIGTERM'), 0)
  for (const path of filesIn(site.dataDir)) assertClean(path, readFileSync(path, 'latin1'))
})

/** Fails when a text has a secret in one of the forms that were printed, be its bytes read as Latin-1. */
function assertClean(where: string, text: string): void {
  const bytes = Buffer.from(plain)
  const inner = [0, 1, 2].map((shift) =>
    // Without what depends on its neighbours.
    Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .slice(4, -4),
  )
  const forms = [plain, encodeURIComponent(plain), JSON.stringify(plain).slice(1, -1), ...inner]
  const lines = key.slice(1, 3)
  for (const form of [...forms, ...lines, key.join(''), derived]) {
    const asRead = Buffer.from(form).toString('latin1')
    assert.ok(!text.includes(form) && !text.includes(asRead), `${where} holds ${form}`)
    assert.ok(!text.includes(JSON.stringify(form).slice(1, -1)), `${where} holds ${form}`)
  }
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
}
