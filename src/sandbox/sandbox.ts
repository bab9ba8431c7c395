import type { Readable } from 'node:stream'

/** What really keeps steps from the rest of the machine. */
export type Isolation = {
  /** `none` where bubblewrap does not work: steps then run as processes like any other. */
  kind: 'bubblewrap' | 'none'
  network: 'none' | 'full'
  /** How the memory of steps is limited: by a control group of the kernel, or by the runner, which measures every 100 ms. */
  memoryLimit: 'cgroup v1' | 'cgroup v2' | 'watched'
  /** One sentence for people: what steps can reach, what limits hold, or why there is no sandbox. */
  description: string
}

export type SandboxLimits = {
  /** Bytes that all processes of a step may take together. */
  memoryMaxBytes: number
  /** Processes and threads of a room at a time. */
  processesMax: number
  /** Bytes of each file that is written. */
  fileMaxBytes: number
  /** Below this, on the disk of the rooms, a step is ended: bytes that are to stay free. */
  freeSpaceMinBytes: number
}

/** Where steps run: makes a room for each job. */
export type Sandbox = {
  isolation: Isolation
  openRoom: () => Promise<Workspace>
}

/**
 * The place of one job: a workspace, a home and a folder for temporary files that last from step to step, and a
 * folder for the files by which steps talk to the runner. Disposing of it ends what still runs in it and removes
 * everything, whatever its modes.
 */
export type Workspace = AsyncDisposable & {
  /** The folders as the runner sees them. Whoever reads in them reads what steps have put there: links, pipes, anything. */
  outside: Folders
  /** The same folders as steps see them. */
  inside: Folders
  run: (command: WorkspaceCommand) => Promise<CommandEnd>
}

export type Folders = { workspace: string; home: string; temp: string; files: string }

export type WorkspaceCommand = {
  /** A program, found by PATH of `env` inside, and its arguments. */
  command: readonly [string, ...string[]]
  /** All of its environment. */
  env: Record<string, string>
  /** A path as steps see it. */
  cwd: string
  /** What it reads; nothing when left out. */
  stdin?: Readable
  timeoutMs: number
  signal: AbortSignal
  /** Called with what it writes, standard output and error in one; what it writes next waits for a promise. */
  onOutput: (bytes: Buffer) => void | Promise<void>
}

/** How a command ended; when it returns, all of its processes have. */
export type CommandEnd = {
  /** 128 + its number for a signal; null when it was ended for one of the reasons below. */
  exitCode: number | null
  reason: 'exited' | 'timed-out' | 'cancelled' | 'out-of-memory' | 'out-of-disk' | 'not-started'
  /** For people, where there is more to say: why it could not start, which limit it met. */
  detail: string
}
