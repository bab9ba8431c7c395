import assert from 'node:assert/strict'
import { chmod, chown } from 'node:fs/promises'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createPathWithout } from '../support/doctor.ts'
import { temporaryFolder } from '../support/git.ts'
import { startService } from '../support/service.ts'
import { withoutUnprivilegedUser } from '../support/unprivileged-user.ts'
import { logOf, oneStep, pushFiles, runToEnd } from '../support/workflow-site.ts'

const unprivilegedId = 65_534
const isRoot = process.getuid?.() === 0
const options = { skip: isRoot && (await withoutUnprivilegedUser(fileURLToPath(import.meta.url))) }

test(
  "without bubblewrap, an ordinary user's server rejects runs with advice",
  options,
  async () => {
    await using place = await createPlace()
    await using service = await place.serve({})
    await pushFiles(service.admin, 'site', oneStep('echo ran'))
    const run = await runToEnd(service.admin, 'site')
    const log = await logOf(service.admin, 'site', run.id)
    assert.equal(run.conclusion, 'failure', log)
    assert.match(log, /Steps do not run here: .*`apt-get install bubblewrap`.*SVC_SANDBOX=none/)
    assert.doesNotMatch(log, /ran$/m)
    assert.match(service.log(), /"level":"warn".*"isolation":"none".*Steps do not run here: /)
  },
)

test('with SVC_SANDBOX=none it runs them, and says so', options, async () => {
  await using place = await createPlace()
  await using service = await place.serve({ SVC_SANDBOX: 'none' })
  await pushFiles(service.admin, 'site', oneStep('echo ran'))
  const run = await runToEnd(service.admin, 'site')
  const log = await logOf(service.admin, 'site', run.id)
  assert.equal(run.conclusion, 'success', log)
  assert.match(log, /^Sandbox: Steps run without a sandbox, as the runner's own user, /)
  assert.match(log, /ran$/m)
})

/** A machine without bubblewrap, on which an ordinary user starts servers. */
async function createPlace() {
  const folder = await temporaryFolder()
  const programs = await createPathWithout('bwrap')
  await chmod(programs.path, 0o755)
  if (isRoot) await chown(folder.path, unprivilegedId, unprivilegedId)
  const identity = [
    `--reuid=${unprivilegedId}`,
    `--regid=${unprivilegedId}`,
    '--clear-groups',
    '--',
  ]
  return {
    serve: (env: Record<string, string>) =>
      startService({
        dataDir: folder.path,
        prefix: isRoot ? ['setpriv', ...identity] : [],
        env: { PATH: programs.path, SVC_RUNNER: 'on', ...env },
      }),
    async [Symbol.asyncDispose]() {
      await programs[Symbol.asyncDispose]()
      await folder[Symbol.asyncDispose]()
    },
  }
}
