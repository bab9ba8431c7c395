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

/** How soon something was answered. */
type CompletedRequest = {
  what: string
  idle: Latency
  /** While svc serves clones and pushes. */
  busy: Latency
  /** While the peer serves the same clones and svc has nothing to do: what the load of the machine alone costs. */
  beside: Latency
}

export type Load = {
  answered: CompletedRequest[]
  rounds: number
  /** How many pushes there were, and how many of them were sent away. */
  pushes: { all: number; refused: number }
}

type Options = {
  subject: Pick<Awaited<ReturnType<typeof startSubject>>, 'url' | 'adminToken'>
  /** Of the repository that is cloned, one that takes seconds, at svc and at its peer. */
  addresses: { svc: string; peer: string }
  /** What is pushed to svc: the body of a push of the branch `pushedName`. */
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

/** How quickly svc answers what is short when nothing else happens and, in turns with that, under load. */
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

/** Pushes a new branch so many times a second while something happens, whether the pushes before are done or not. */
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
        // Its failure is told when all are waited for.
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

/** Has a process ask all the time, until it is disposed of. */
function startWatch(words: string[], signal: AbortSignal) {
  const child = fork(watcher, words, { detached: true })
  hasten(child.pid)
  const ended = once(child, 'exit')
  const failed = ended.then((): never => {
    throw new Error('The process that asks svc all the time ended.')
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

// The clones take all cores of clients. What the watcher itself waits for them is no part of what svc takes, so it
// is in a session of its own (the kernel shares time out by session), and goes first where that is allowed.
function hasten(pid = 0): void {
  try {
    setPriority(pid, -10)
    writeFileSync(`/proc/${pid}/autogroup`, '-10')
  } catch {
    say('Svc is asked without priority: the times have what the asking process waits in them')
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
