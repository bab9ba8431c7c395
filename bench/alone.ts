import { get } from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { makeBulk, mixedSizes } from './fixtures.ts'
import { interleave } from './measure.ts'
import { type Footprint, footprintOf, type Growth, watchGrowth } from './memory.ts'
import { say } from './output.ts'
import { startSubject } from './subject.ts'
import type { Workspace } from './workspace.ts'

const idleAfterMs = 5000
const lookEveryMs = 100

/** Measures the time from the start of svc to its first response, in ms: on a new and a used data directory. */
export async function measureStart({ folder, signal }: Workspace, usedDir: string, rounds: number) {
  say('Measuring: start to first response')
  const startOn = async (dataDir: string) => {
    signal.throwIfAborted()
    const startedAt = performance.now()
    await using subject = await startSubject({ dataDir })
    await assertHealthy(subject.url)
    const elapsedMs = performance.now() - startedAt
    await subject.stop()
    return elapsedMs
  }
  const { medians } = await interleave({
    contestants: {
      fresh: (round) => startOn(join(folder, `data-${round}`)),
      used: () => startOn(usedDir),
    },
    rounds,
    seconds: 30,
  })
  return medians
}

/** Measures the memory of svc after its start, without requests. */
export async function measureIdle({ signal }: Workspace, dataDir: string): Promise<Footprint> {
  say('Measuring: memory when idle')
  await using subject = await startSubject({ dataDir })
  await assertHealthy(subject.url)
  await pause(idleAfterMs, undefined, { signal })
  return footprintOf(subject.pid)
}

/** Measures the growth of svc's memory during a push of 2 GiB. */
export async function measureHugePush(workspace: Workspace): Promise<Growth> {
  const { folder, git, signal } = workspace
  say('Creating 2 GiB of incompressible data')
  const huge = await makeBulk(workspace, { name: 'huge', sizes: mixedSizes() })
  const env = { SVC_PUSH_MAX: '4GiB' }
  await using subject = await startSubject({ dataDir: join(folder, 'data-huge'), env })
  const address = await subject.host.create(huge.name)
  await pause(idleAfterMs, undefined, { signal })
  say('Measuring: memory during a push of 2 GiB')
  using watched = watchGrowth(subject.pid, lookEveryMs)
  const update = `${huge.ref}:${huge.ref}`
  await git(['-C', huge.path, 'push', '--quiet', address, update], { config: huge.config })
  return watched.growth
}

function assertHealthy(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    get(`${url}/health`, { agent: false }, (response) => {
      response.resume()
      if (response.statusCode === 200) response.on('end', resolve)
      else reject(new Error(`GET /health answered ${response.statusCode}.`))
    }).on('error', reject)
  })
}
