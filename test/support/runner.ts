import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import type { Plan, RunEntry } from '#actions/workflow-engine/plan.ts'
import { type Project, spawnGit } from './git.ts'
import { launcher } from './service.ts'

type Options = {
  server: string
  token: string
  folder?: string
  args?: string[]
  env?: Record<string, string>
}

/** Starts the real `svc runner`, by default with a folder of its own that goes with it. */
export async function startRunner({ server, token, folder, args = [], env }: Options) {
  const place = folder ?? (await mkdtemp(join(tmpdir(), 'svc-test-runner-')))
  const child = spawn(launcher, ['runner', '--server', server, '--folder', place, ...args], {
    env: {
      PATH: process.env.PATH,
      SVC_RUNNER_TOKEN: token,
      SVC_FREE_SPACE_MIN: '0',
      SVC_FAILED_WORKSPACE_SECONDS: '0',
      ...env,
    },
    stdio: ['pipe', 'ignore', 'pipe'],
    detached: true,
  })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log += text
  })
  const exited = once(child, 'exit')

  return {
    folder: place,
    pid: child.pid ?? 0,
    stdin: child.stdin,
    log: () => log,
    kill: (signal: NodeJS.Signals) => void child.kill(signal),
    /** Waits for its end; the exit code. */
    async ended(): Promise<number | null> {
      await exited
      return child.exitCode
    },

    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
      await exited
      if (folder === undefined) await rm(place, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/** A plan for the head of a project and one workflow file, `ci.yml`; and the pack of that commit. */
export async function planFor(project: Project, text: string, changes: Partial<Plan> = {}) {
  const commit = await project.git('rev-parse', 'HEAD')
  const plan: Plan = {
    runId: '',
    attempt: 1,
    number: 1,
    repository: { name: 'site', owner: 'ada', defaultBranch: 'main' },
    serverUrl: 'https://git.example',
    event: 'push',
    ref: 'refs/heads/main',
    commit,
    actor: 'ada',
    triggeringActor: 'ada',
    inputs: {},
    payload: {},
    files: [{ path: '.svc/workflows/ci.yml', text }],
    actions: [],
    called: [],
    secrets: {},
    identities: [],
    kept: [],
    limits: { runTimeoutMs: 600_000, stepTimeoutMs: 600_000, outputMaxBytes: 1024 * 1024 },
    ...changes,
  }
  return [plan, { commit, bytes: await packOf(project, commit) }] as const
}

/** What steps wrote, as one text. */
export function outputOf(entries: RunEntry[]): string {
  return entries
    .map((entry) => (entry.kind === 'output' && entry.step !== null ? entry.text : ''))
    .join('')
}

/** How a run ended; undefined while it has not. */
export function endOf(entries: RunEntry[]): (RunEntry & { kind: 'run-ended' }) | undefined {
  return entries.find((entry) => entry.kind === 'run-ended')
}

async function packOf(project: Project, commit: string): Promise<Buffer> {
  const objects = await project.git('rev-list', '--objects', '--no-walk', commit)
  const git = spawnGit(project.path, ['pack-objects', '--stdout', '--quiet'])
  git.stdin.end(`${objects}\n`)
  return buffer(git.stdout)
}
