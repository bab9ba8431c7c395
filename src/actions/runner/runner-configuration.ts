import type { RunnerSandboxOptions } from './sandbox-options.ts'

/** What the server passes to its built-in runner when it starts. */
export type RunnerConfiguration = {
  /** The address of the server. */
  server: string
  /** The secret that authenticates the runner. */
  token: string
  name: string
  labels: string[]
  folder: string
  jobs: number
  sandbox: RunnerSandboxOptions
  failedWorkspaceMs: number
  idleMs: number
  path: string
  version: string
  logLevel: string
}
