import type { Readable } from 'node:stream'
import type { HostRule } from '#base/outbound/host-rules.ts'
import type { HostAccess } from '../step-network/proxy-session.ts'

/** The isolation that steps really have. */
export type Isolation = {
  /** `none` where bubblewrap does not work: steps then run as processes like any other. */
  kind: 'bubblewrap' | 'none'
  /** `hosts`: those of `Sandbox.hosts`, through a proxy. */
  network: 'none' | 'hosts' | 'full'
  /** `watched`: the runner measures it every 100 ms. Otherwise the kernel limits it. */
  memoryLimit: 'cgroup v1' | 'cgroup v2' | 'watched'
  /** A sentence: what steps can reach, which limits hold, or why there is no sandbox. */
  description: string
}

export type SandboxLimits = {
  /** Bytes, of all processes of a step together. */
  memoryMaxBytes: number
  /** Processes and threads of a workspace at a time. */
  processesMax: number
  /** Bytes of each written file. */
  fileMaxBytes: number
  /** Bytes of the workspaces' disk that must stay free: below this, a step is killed. */
  freeSpaceMinBytes: number
}

export type Sandbox = {
  isolation: Isolation
  /** Undefined when steps cannot execute the Node.js of the runner. */
  node: RunnerNode | undefined
  /** The hosts that steps may reach, if the network is `hosts`. */
  hosts: readonly HostRule[]
  openWorkspace: () => Promise<Workspace>
}

/** The Node.js of the runner, by its path as steps see it. */
export type RunnerNode = { path: string; version: string }

/**
 * The directories of one job: the working directory, a home and temporary files, which last from step to step, and the
 * files by which steps communicate with the runner. Disposing it kills its processes and removes all its files.
 */
export type Workspace = AsyncDisposable & {
  /** The directories as the runner sees them. Their contents are untrusted: links, pipes, anything. */
  outside: Folders
  /** The same directories as steps see them. */
  inside: Folders
  run: (command: WorkspaceCommand) => Promise<CommandEnd>
}

export type Folders = { workspace: string; home: string; temp: string; files: string }

export type WorkspaceCommand = {
  /** A program, found by PATH of `env` inside, and its arguments. */
  command: readonly [string, ...string[]]
  /** The whole environment. */
  env: Record<string, string>
  /** A path as steps see it. */
  cwd: string
  /** Standard input; empty when undefined. */
  stdin?: Readable
  /** Called with each chunk of `stdin` once the system has it. */
  onInputWritten?: (bytes: Buffer) => void
  /**
   * The hosts to reach through the proxy at `proxyUrl`, or `none`; by default the whole network if the isolation has
   * that, else none. Without bubblewrap it is always the whole network.
   */
  network?: HostAccess | 'none'
  timeoutMs: number
  signal: AbortSignal
  /** Gets standard output and standard error, in order. Reading pauses until a returned promise resolves. */
  onOutput: (bytes: Buffer) => void | Promise<void>
}

/** The result of a command, all of whose processes have ended. */
export type CommandEnd = {
  /** 128 plus the number for a signal; null for any reason but `exited`. */
  exitCode: number | null
  reason: 'exited' | 'timed-out' | 'cancelled' | 'out-of-memory' | 'out-of-disk' | 'not-started'
  /** A sentence about the reason: why the command could not start, or which limit it reached. */
  detail: string
}
