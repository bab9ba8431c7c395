import { fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { setPriority } from 'node:os'
import { fileURLToPath } from 'node:url'
import { print } from './print.ts'

const requestIntervalMs = 8

/** Starts a process that sends requests until it is disposed. */
export function startWatcher(url: string, token: string, signal: AbortSignal) {
  const child = fork(fileURLToPath(import.meta.url), [url, token], { detached: true })
  raisePriority(child.pid)
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
    /** Returns the latencies in ms until the first of `works` is done; waits for all of them. */
    async during(works: Promise<unknown>[]): Promise<number[]> {
      const [, latencies] = await Promise.all([
        Promise.all(works),
        take()
          .then(() => Promise.race(works))
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
function raisePriority(pid = 0): void {
  try {
    setPriority(pid, -10)
    writeFileSync(`/proc/${pid}/autogroup`, '-10')
  } catch {
    print(
      'Requests are sent without priority: the times include the waiting of the sending process',
    )
  }
}

// The rest runs in the separate process, so that the start of each git in the bench is not measured.
if (import.meta.main) watch(process.argv.slice(2))

function watch([url = '', token = '']: string[]): void {
  const agent = new Agent({ keepAlive: true })
  const headers = { authorization: `Bearer ${token}` }
  let latencies: number[] = []

  /** Does not wait for earlier responses, so a pause of the server delays all requests made during it. */
  function request(): void {
    const startedAt = performance.now()
    get(url, { agent, headers }, (response) => {
      if (response.statusCode !== 200) throw new Error(`${url} failed: ${response.statusCode}`)
      response.resume().on('end', () => latencies.push(performance.now() - startedAt))
    })
  }

  setInterval(request, requestIntervalMs)
  // Each message requests the latencies measured since the previous one.
  process.on('message', () => {
    process.send?.(latencies)
    latencies = []
  })
  process.on('disconnect', () => process.exit())
}
