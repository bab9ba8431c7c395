import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { delimiter } from 'node:path'
import { fileURLToPath } from 'node:url'
import { programs } from '../support/programs.ts'
import type { Environment, Job } from './jobs.ts'
import type { WorkerEvent, WorkerOrder } from './worker-messages.ts'

/** Receives what the tests of a job report, and at last its end with what its process has printed meanwhile. */
export type Observer = {
  onStart: (job: Job) => void
  onEvent: (job: Job, event: WorkerEvent) => void
  onEnd: (job: Job, end: { durationMs: number; output: string }) => void
}

// A test waits up to 3 minutes for a condition. One that is silent for so long would never end.
const silenceTimeoutMs = 15 * 60_000
const outputMaxLength = 100_000

const local = (name: string) => fileURLToPath(new URL(name, import.meta.url))

type Options = {
  concurrency: number
  root: string
  observer: Observer
  /** Ends the processes, and leaves out the other jobs. */
  signal: AbortSignal
}

/** Runs jobs in their order, some at once, each process one job after another. */
export async function runJobs(jobs: readonly Job[], options: Options): Promise<void> {
  const { concurrency, signal } = options
  const queue = [...jobs]
  signal.addEventListener('abort', () => queue.splice(0))
  const work = async () => {
    const workers = new Map<Environment, Worker>()
    for (let job = queue.shift(); job; job = queue.shift()) {
      const { environment, isAlone } = job
      const kept = isAlone ? undefined : workers.get(environment)
      const worker = kept ?? startWorker(environment, options)
      const isUsable = await worker.run(job)
      if (isAlone) {
        if (isUsable) await worker.end()
      } else if (isUsable) workers.set(environment, worker)
      else workers.delete(environment)
    }
    for (const worker of workers.values()) await worker.end()
  }
  await Promise.all(Array.from({ length: concurrency }, work))
}

type Worker = {
  /** Runs a job; false when the process has ended in it. */
  run: (job: Job) => Promise<boolean>
  /** Lets the process end, which is a failure of its last job if it does not end well. */
  end: () => Promise<void>
}

function startWorker(environment: Environment, { root, observer, signal }: Options): Worker {
  const child = fork(local('worker.ts'), {
    cwd: root,
    execArgv: toNodeOptions(environment),
    env: environment.store === 'shared' ? withOtherFormat() : withoutSharedStore(),
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const stop = () => child.kill()
  signal.addEventListener('abort', stop)
  child.once('exit', () => signal.removeEventListener('abort', stop))
  const exited = once(child, 'close')
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-outputMaxLength)
    })
  let last: Job | undefined
  let hasFailed = false

  return {
    async run(job) {
      last = job
      output = ''
      observer.onStart(job)
      const startedAt = performance.now()
      const isUsable = await runIn(child, job, (event) => {
        hasFailed ||= event.kind === 'failed'
        observer.onEvent(job, event)
      })
      if (!isUsable) await exited
      observer.onEnd(job, { durationMs: performance.now() - startedAt, output })
      return isUsable
    },

    async end() {
      // It may have been ended by a signal.
      if (child.connected) child.send({ end: true } satisfies WorkerOrder)
      const [code, signal] = await exited
      // Its exit code is also that of its failed tests.
      if (last && !hasFailed && code !== 0)
        observer.onEvent(last, {
          kind: 'failed',
          names: ['(the end of its process)'],
          error: `It ended with ${signal ?? `exit code ${code}`}.\n${output}`,
        })
    },
  }
}

/** Runs a job in a process; false when the process has ended in it, which is a failure. */
async function runIn(
  child: ChildProcess,
  { path }: Job,
  onEvent: (event: WorkerEvent) => void,
): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  let running = ['(its beginning)']
  let fault = 'The process ended'
  const silence = setTimeout(() => {
    fault = 'There was no result for 15 minutes, and the process was ended'
    child.kill('SIGKILL')
  }, silenceTimeoutMs)
  const onMessage = (event: WorkerEvent) => {
    silence.refresh()
    if (event.kind === 'started') running = event.names
    if (event.kind === 'file-ended') resolve(true)
    else onEvent(event)
  }
  const onExit = (code: number | null, signal: string | null) => {
    const error = `${fault}: ${signal ?? `exit code ${code}`}.`
    onEvent({ kind: 'failed', names: running, error })
    resolve(false)
  }
  child.on('message', onMessage).once('exit', onExit)
  child.send({ path } satisfies WorkerOrder)
  const isUsable = await promise
  clearTimeout(silence)
  child.off('message', onMessage).off('exit', onExit)
  return isUsable
}

/** The other object format, with a git whose clients push it to any repository: what runs again covers more than stores. */
function withOtherFormat(): NodeJS.ProcessEnv {
  const folder = programs['git-2.47'].find()
  if (folder === undefined) return process.env
  const path = [folder, process.env.PATH].join(delimiter)
  return { ...process.env, PATH: path, SVC_TEST_OBJECT_FORMAT: 'sha256' }
}

function toNodeOptions({ tagFilter }: Environment): string[] {
  return [
    // Collecting garbage in further threads would cost a tenth more of the processor.
    '--single-threaded-gc',
    '--disable-warning=ExperimentalWarning',
    `--test-reporter=${local('report-to-command.ts')}`,
    ...(tagFilter === undefined ? [] : [`--experimental-test-tag-filter=${tagFilter}`]),
  ]
}

function withoutSharedStore(): NodeJS.ProcessEnv {
  const { SVC_TEST_LAUNCHER: _launcher, ...rest } = process.env
  return rest
}
