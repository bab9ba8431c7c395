import { fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { median, percentile } from './measure.ts'
import { say } from './output.ts'
import type { startSubject } from './subject.ts'
import type { Target } from './wire.ts'
import type { Workspace } from './workspace.ts'

/** In ms; each the median of the rounds. */
type Latency = { p50: number; p99: number }

/** Response times. */
type CompletedRequest = {
  what: string
  idle: Latency
  /** While svc serves clones and pushes. */
  busy: Latency
  /** While the peer serves the same clones and svc is idle: the cost of the load of the machine alone. */
  beside: Latency
}

export type Load = {
  answered: CompletedRequest[]
  rounds: number
  /** The number of pushes, and of rejected pushes. */
  pushes: { all: number; refused: number }
}

type Options = {
  subject: Pick<Awaited<ReturnType<typeof startSubject>>, 'url' | 'adminToken'>
  /** Addresses at svc and its peer of the cloned repository, whose clone takes seconds. */
  addresses: { svc: string; peer: string }
  /** The body of a push of the branch `pushedName`. */
  push: { target: Target; body: Buffer }
  rounds: number
}

export const loadClones = 8
export const loadPushes = 10
/** The branch that is pushed; the digits count. */
export const pushedName = 'load-00000'
const idleMs = 4000
const watched = ['/health', '/repos']
const watcher = fileURLToPath(new URL('answer-watch.ts', import.meta.url))

/** Measures the response time of short requests to svc, alternately idle and under load. */
export async function measureLoad(workspace: Workspace, options: Options): Promise<Load> {
  const { subject, addresses, push, rounds } = options
  const { signal } = workspace
  say(`Measuring: answers during ${loadClones} clones and ${loadPushes} pushes a second`)
  await using watches = new AsyncDisposableStack()
  const started = watched.map((path) =>
    watches.use(startWatch([subject.url + path, subject.adminToken], signal)),
  )
  const during = (happening: Promise<unknown>[]) =>
    Promise.all(started.map((watch) => watch.during(happening)))
  const taken = watched.map(() => ({ idle: [], busy: [], beside: [] }) as Record<State, Latency[]>)
  const pusher = createPusher(push)
  // Round 0 warms up.
  for (let round = 0; round <= rounds; round++) {
    const idle = await during([pause(idleMs, undefined, { signal })])
    const busy = await pusher.during(() => during(startClones(workspace, addresses.svc)))
    await checkClones(workspace)
    const beside = await during(startClones(workspace, addresses.peer))
    await checkClones(workspace)
    await workspace.sync()
    if (round === 0) continue
    for (const [index, of] of taken.entries()) {
      of.idle.push(toLatency(idle[index]))
      of.busy.push(toLatency(busy[index]))
      of.beside.push(toLatency(beside[index]))
    }
  }
  const answered = taken.map(({ idle, busy, beside }, index) => ({
    what: `GET ${watched[index]}`,
    idle: middle(idle),
    busy: middle(busy),
    beside: middle(beside),
  }))
  return { answered, rounds, pushes: pusher.counts }
}

type State = 'idle' | 'busy' | 'beside'

const cloneNames = Array.from({ length: loadClones }, (_, index) => `clone-${index}`)

function startClones({ git }: Workspace, address: string): Promise<unknown>[] {
  return cloneNames.map((name) => git(['clone', '--quiet', '--mirror', address, name]))
}

async function checkClones({ git, folder }: Workspace): Promise<void> {
  for (const name of cloneNames) {
    await git(['-C', name, 'fsck'])
    await rm(join(folder, name), { recursive: true })
  }
}

/** Pushes new branches at a fixed rate during other work, without waiting for earlier pushes. */
function createPusher({ target, body }: { target: Target; body: Buffer }) {
  const at = body.indexOf(pushedName)
  const counts = { all: 0, refused: 0 }

  async function push(): Promise<void> {
    const own = Buffer.from(body)
    own.write(String(++counts.all).padStart(5, '0'), at + pushedName.length - 5, 'latin1')
    const answer = await fetch(`${target.url}/git-receive-pack`, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-git-receive-pack-request',
        ...(target.authorization && { authorization: target.authorization }),
      },
      body: new Uint8Array(own),
    })
    const report = await answer.text()
    if (answer.status === 503) {
      counts.refused += 1
      return
    }
    if (!report.includes(`ok refs/heads/`)) throw new Error(`A push failed: ${report}`)
  }

  return {
    counts,

    async during<T>(happen: () => Promise<T>): Promise<T> {
      const pushes: Promise<void>[] = []
      const begin = () => {
        const pushing = push()
        // A failure is thrown where all are awaited.
        pushing.catch(() => {})
        pushes.push(pushing)
      }
      const timer = setInterval(begin, 1000 / loadPushes)
      try {
        return await happen()
      } finally {
        clearInterval(timer)
        await Promise.all(pushes)
      }
    },
  }
}

/** Starts a process that sends requests until it is disposed. */
function startWatch(words: string[], signal: AbortSignal) {
  const child = fork(watcher, words, { detached: true })
  hasten(child.pid)
  const ended = once(child, 'exit')
  const failed = ended.then((): never => {
    throw new Error('The process that sends requests to svc ended.')
  })
  // An exit is a failure only for callers that wait.
  failed.catch(() => {})
  async function take(): Promise<number[]> {
    child.send('take')
    const [latencies] = await Promise.race([once(child, 'message', { signal }), failed])
    return latencies
  }
  return {
    /** Returns the response times in ms until the first of `works` was done; waits for all of them. */
    async during(happening: Promise<unknown>[]): Promise<number[]> {
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

// The clones use all cores of clients. The watcher's own waiting must not count as svc's time, so it has its own
// session (the kernel shares CPU time by session), and a higher priority where that is allowed.
function hasten(pid = 0): void {
  try {
    setPriority(pid, -10)
    writeFileSync(`/proc/${pid}/autogroup`, '-10')
  } catch {
    say('Requests are sent without priority: the times include the waiting of the sending process')
  }
}

function toLatency(latencies: number[] = []): Latency {
  return { p50: percentile(latencies, 0.5), p99: percentile(latencies, 0.99) }
}

function middle(latencies: Latency[]): Latency {
  return {
    p50: median(latencies.map(({ p50 }) => p50)),
    p99: median(latencies.map(({ p99 }) => p99)),
  }
}
