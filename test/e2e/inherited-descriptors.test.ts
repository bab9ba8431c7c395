// Tags: exhaustive
import assert from 'node:assert/strict'
import { readdirSync, readlinkSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { temporaryFolder } from '../support/git.ts'
import { inheriting } from '../support/inherited.ts'
import { commandOf, familyOf } from '../support/processes.ts'
import { connectRawSsh } from '../support/raw-ssh.ts'
import { startServiceWithSsh } from '../support/service.ts'
import { oneStep, pushFiles, runToEnd } from '../support/workflow-site.ts'

const programs = [/dist\/main\.js/, /spawn-helper-main/, /ssh-main/, /runner-main/, /prefork\.sh$/]

test('no process that a server starts inherits the descriptors of its shell', async () => {
  await using folder = await temporaryFolder()
  const inherited = join(folder.path, 'inherited')
  await writeFile(inherited, 'of the shell')
  await using service = await startServiceWithSsh({
    prefix: inheriting(inherited),
    env: { SVC_RUNNER: 'on' },
  })
  await pushFiles(service.admin, 'site', oneStep('true'))
  await runToEnd(service.admin, 'site')
  const client = await connectRawSsh(service.sshPort)
  const family = await until('each of its programs runs', () => {
    const pids = familyOf(service.pid)
    const commands = pids.map(commandOf)
    const isComplete = programs.every((program) => commands.some((one) => program.test(one)))
    return isComplete ? pids : undefined
  })
  const started = family.filter((pid) => pid !== service.pid)
  const holders = started.filter((pid) => filesOf(pid).includes(inherited))
  assert.deepEqual(holders.map(commandOf), [])
  client.socket.destroy()
})

function filesOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`
  try {
    return readdirSync(folder).map((name) => readlinkSync(join(folder, name)))
  } catch {
    // The process, or the file, has been closed meanwhile.
    return []
  }
}
