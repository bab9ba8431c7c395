/** The workspace of a failed job, which its runner keeps for a while. */
export type FailedWorkspaceRow = {
  /** Chosen by the runner. */
  id: string
  runId: string
  repositoryId: string
  attempt: number
  /** The name of the job. */
  job: string
  /** The name of the runner that keeps it, and the hash of its secret. */
  runner: string
  holder: string
  /** For how long after the end of its run it is kept. */
  keptMs: number
  /** The last heartbeat of the runner that holds it. */
  seenAt: number
  /** When it was removed; null while it exists. */
  removedAt: number | null
}

/** A shell in the workspace of a failed job. */
export type RunShellRow = {
  id: string
  runId: string
  repositoryId: string
  workspaceId: string
  holder: string
  /** The token that opened it. */
  actorId: string
  actorUsername: string
  /** The size of the terminal; null without a terminal. */
  terminalColumns: number | null
  terminalRows: number | null
  term: string
  openedAt: number
  /** When the runner took it; null before. */
  startedAt: number | null
  /** When its user and its runner last made a request. */
  userSeenAt: number
  runnerSeenAt: number
  /** Bytes in each direction that were received, and that were read. */
  inputSize: number
  inputRead: number
  outputSize: number
  outputRead: number
  /** 1 when no more input comes. */
  isInputClosed: number
  endedAt: number | null
  exitCode: number | null
  /** Why it ended, if not by its own exit. */
  endReason: string
}

/** Bytes of a shell that are on their way, from the offset `start`; sealed, since they may contain secrets. */
export type RunShellBytesRow = {
  shellId: string
  direction: 'input' | 'output'
  start: number
  sealedBytes: Uint8Array
}
