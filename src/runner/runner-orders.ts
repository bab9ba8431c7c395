import type { RunnerSandboxOptions } from './sandbox-options.ts'

/** What the runner beside a server is told when it starts. */
export type RunnerOrders = {
  /** Where the server listens. */
  server: string
  /** The secret by which the server knows it. */
  token: string
  name: string
  labels: string[]
  folder: string
  jobs: number
  sandbox: RunnerSandboxOptions
  idleMs: number
  path: string
  version: string
  logLevel: string
}
