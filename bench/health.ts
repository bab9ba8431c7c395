import { fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { median } from './measure.ts'
import { say } from './output.ts'
import type { Workspace } from './workspace.ts'

/** In ms; each the median of the rounds. */
type Latency = { p50: number; p99: number }

export type Health = {
  idle: Latency
  /** While svc serves clones. */
  busy: Latency
  /** While the peer serves the same clones and svc has nothing to do: what the load of the machine alone costs. */
  beside: Latency
  clones: number
  rounds: number
}

type Options = {
  url: string
  /** Of the repository that is cloned, one that takes seconds, at svc and at its peer. */
  addresses: { svc: string; peer: string }
  rounds: number
}

const clones = 8
const idleMs = 4000
const watcher = fileURLToPath(new URL('health-watch.ts', import.meta.url))

/** How quickly svc answers GET /health when nothing else happens and, in turns with that, while clones stream. */
export async function measureHealth(workspace: Workspace, options: Options): Promise<Health> {
  const { url, addresses, rounds } = options
  say(`Measuring: GET /health during ${clones} clones`)
  await using watch = startWatch(url, workspace.signal)
  const taken = { idle: [] as Latency[], busy: [] as Latency[], beside: [] as Latency[] }
  // Round 0 warms up.
  for (let round = 0; round <= rounds; round++) {
    const idle = await watch.during([pause(idleMs, undefined, { signal: workspace.signal })])
    const busy = await watch.during(startClones(workspace, addresses.svc))
    const beside = await watch.during(startClones(workspace, addresses.peer))
    await workspace.sync()
    if (round === 0) continue
    taken.idle.push(toLatency(idle))
    taken.busy.push(toLatency(busy))
    taken.beside.push(toLatency(beside))
  }
  const { idle, busy, beside } = taken
  return { idle: middle(idle), busy: middle(busy), beside: middle(beside), clones, rounds }
}

function startClones({ git, folder }: Workspace, address: string): Promise<void>[] {
  return Array.from({ length: clones }, async (_, index) => {
    const name = `clone-${index}`
    await git(['clone', '--quiet', '--mirror', address, name])
    await rm(join(folder, name), { recursive: true })
  })
}

/** Has a process ask all the time, until it is disposed of. */
function startWatch(url: string, signal: AbortSignal) {
  const child = fork(watcher, [url], { detached: true })
  hasten(child.pid)
  const ended = once(child, 'exit')
  const failed = ended.then((): never => {
    throw new Error('The process that asks for GET /health ended.')
  })
  // Its end is a failure only for whoever waits for it.
  failed.catch(() => {})
  async function take(): Promise<number[]> {
    child.send('take')
    const [latencies] = await Promise.race([once(child, 'message', { signal }), failed])
    return latencies
  }
  return {
    /** What each answer took, in ms, until the first of the things that happen was done; waits for all of them. */
    async during(happening: Promise<void>[]): Promise<number[]> {
      const [, latencies] = await Promise.all([
        Promise.all(happening),
        take()
          .then(() => Promise.race(happening))
          .then(take),
      ])
      return latencies
    },
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect()
      await ended
    },
  }
}

// The clones take all cores. What the watcher itself waits for them is no part of what svc takes, so it is
// in a session of its own, as svc is (the kernel shares time out by session), and goes first where that is allowed.
function hasten(pid = 0): void {
  try {
    setPriority(pid, -10)
    writeFileSync(`/proc/${pid}/autogroup`, '-10')
  } catch {
    say(
      'GET /health is asked for without priority: the times have what the asking process waits in them',
    )
  }
}

function toLatency(latencies: number[]): Latency {
  const sorted = latencies.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99) }
}

function middle(latencies: Latency[]): Latency {
  return {
    p50: median(latencies.map(({ p50 }) => p50)),
    p99: median(latencies.map(({ p99 }) => p99)),
  }
}
