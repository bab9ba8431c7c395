// Tags: exhaustive
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { until } from '../support/condition.ts'
import { temporaryFolder } from '../support/git.ts'
import { memoryGroupOf, withoutMemoryGroups } from '../support/memory-groups.ts'
import { familyOf, killTree, processesNaming } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { openTestSandbox, pathWithoutBubblewrap, runningIn } from '../support/sandbox.ts'
import { type Service, startService } from '../support/service.ts'
import { logOf, oneStep, pushFiles, runToEnd } from '../support/workflow-site.ts'

const mib = 1024 ** 2
const limit = 64 * mib
const timeout = 900_000
const options = { timeout, skip: without('bubblewrap') || (await withoutMemoryGroups()) }

// What belongs to no process: each fills some hundreds of MiB with little memory of its own.
const hogs = {
  'files in memory that are in a socket': `
import array, os, socket
kept = []
for _ in range(30):
    near, far = socket.socketpair()
    file = os.memfd_create("hog")
    for _ in range(20): os.write(file, b"x" * (1 << 20))
    near.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
    os.close(file)
    kept.append((near, far))`,
  'buffers of Unix sockets': `
import socket
kept = []
for _ in range(2000):
    near, far = socket.socketpair()
    near.setblocking(False)
    try:
        while True: near.send(b"x" * 65536)
    except BlockingIOError: kept.append((near, far))`,
  'files in memory of many processes': `
import os, time
for _ in range(8):
    if os.fork() == 0:
        file = os.memfd_create("hog")
        for _ in range(40): os.write(file, b"x" * (1 << 20))
        time.sleep(1000)`,
}

for (const kind of ['in bubblewrap', 'without bubblewrap'] as const) {
  describe(`a control group limits the memory of a step ${kind}`, options, () => {
    for (const [what, script] of Object.entries(hogs)) {
      test(`${what} count`, { timeout }, async () => {
        await using place = await createPlace(kind)
        const hold = `${script}\nimport time\ntime.sleep(1000)`
        const env = { PATH: '/usr/bin:/bin', SCRIPT: hold }
        const end = await place.sandbox.run('exec python3 -c "$SCRIPT"', {
          env,
          timeoutMs: 600_000,
        })
        assert.deepEqual([end.reason, end.exitCode], ['out-of-memory', null], end.output)
        assert.match(end.detail, /64 MiB/)
        assert.deepEqual(runningIn(place.sandbox.workspace), [])
      })
    }

    test('a step with a process killed for its memory fails, even if it exits with 0', {
      timeout,
    }, async () => {
      await using place = await createPlace(kind)
      const take = 'bytearray(40 << 20)'
      const script = `python3 -c "import os; os.fork(); kept = ${take}; import time; time.sleep(1000)"; exit 0`
      const { reason } = await place.sandbox.run(script)
      assert.equal(reason, 'out-of-memory')
      assert.equal((await place.sandbox.run('echo next')).output, 'next\n')
    })

    test('the group has the limit, contains every process of the step, and is removed with the job', {
      timeout,
    }, async () => {
      await using place = await createPlace(kind)
      const { workspace, run } = place.sandbox
      assert.equal(place.sandbox.sandbox.isolation.memoryLimit, place.version)
      const running = run('(setsid sleep 4718001 &); touch "$HOME/ready"; sleep 4718001')
      const steps = await until('the step runs', () => {
        const pids = processesNaming('4718001')
        return pids.length === 2 && pids
      })
      const groups = new Set(steps.map(memoryGroupOf))
      assert.equal(groups.size, 1)
      const [group = ''] = groups
      assert.match(group, /\/svc-workspace-\w+$/)
      assert.ok(!group.endsWith(memoryGroupOf(process.pid)))
      const file = place.version === 'cgroup v2' ? 'memory.max' : 'memory.limit_in_bytes'
      assert.equal(Number(readFileSync(join(group, file), 'utf8')), limit)
      await workspace[Symbol.asyncDispose]()
      assert.equal((await running).reason, 'cancelled')
      assert.ok(!existsSync(group))
    })
  })
}

describe('a server and the memory of steps', options, () => {
  test('the log and the first line of a run say which limit applies', { timeout }, async () => {
    await using service = await startService({ env: { SVC_RUNNER: 'on' } })
    await pushFiles(service.admin, 'site', oneStep('true'))
    const { id } = await runToEnd(service.admin, 'site')
    const [first = ''] = (await logOf(service.admin, 'site', id)).split('\n')
    const [, version] = /The kernel limits their memory \((cgroup v[12])\)\.$/.exec(first) ?? []
    assert.ok(version, first)
    await until('the log says so', () =>
      service.log().includes(`"isolation":"bubblewrap","memoryLimit":"${version}"`),
    )
  })

  test('a killed runner, or server and runner, leave no control group', {
    timeout,
  }, async () => {
    await using folder = await temporaryFolder()
    const serve = () => startService({ dataDir: folder.path, env: { SVC_RUNNER: 'on' } })
    const killings = {
      runner: async ({ pid }: Service) => {
        const runner = familyOf(pid).find((one) => isRunner(one))
        if (runner !== undefined) process.kill(runner, 'SIGKILL')
      },
      server: (service: Service) => service.end('SIGKILL'),
      both: async (service: Service) => killTree(service.pid),
    }
    let mark = 4718100
    for (const [what, kill] of Object.entries(killings)) {
      const word = String(mark++)
      let group: string
      {
        await using service = await serve()
        await pushFiles(service.admin, `site-${what}`, oneStep(`sleep ${word}`))
        await service.admin.post(`/repos/site-${what}/workflows`, {})
        const [step = 0] = await until('the step runs', () => {
          const pids = processesNaming(word)
          return pids.length > 0 && pids
        })
        group = memoryGroupOf(step)
        await kill(service)
        await until('its processes have ended', () => !processesNaming(word).includes(step))
        await service.admin.delete(`/repos/site-${what}`).catch(() => {})
      }
      await using next = await serve()
      await next.admin.delete(`/repos/site-${what}`)
      await pushFiles(next.admin, `next-${what}`, oneStep('true'))
      await runToEnd(next.admin, `next-${what}`)
      assert.ok(!existsSync(group), `${what}: ${group}`)
    }
  })
})

function isRunner(pid: number): boolean {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('runner-main')
}

async function createPlace(kind: 'in bubblewrap' | 'without bubblewrap') {
  const programs = await temporaryFolder()
  const isWithout = kind === 'without bubblewrap'
  const sandbox = await openTestSandbox({
    ...(isWithout && { path: await pathWithoutBubblewrap(programs.path), mode: 'auto' }),
    limits: { memoryMaxBytes: limit },
  })
  const { kind: isolation, memoryLimit: version } = sandbox.sandbox.isolation
  assert.equal(isolation, isWithout ? 'none' : 'bubblewrap')
  return {
    sandbox,
    version,
    async [Symbol.asyncDispose]() {
      await sandbox[Symbol.asyncDispose]()
      await programs[Symbol.asyncDispose]()
    },
  }
}
