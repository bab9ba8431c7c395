import type { ExitStatus } from './preforked-process.ts'

/** A message to the helper: first the variables of all processes, then the id of each process to start. */
export type SpawnRequest = { variables: Record<string, string> } | { id: number }

/** A message about a process: its pipes one by one, each with a handle, its standard error, and its end. */
export type SpawnReport =
  | { id: number; pid: number | undefined; pipe: PipeName }
  | { id: number; stderr: string }
  | ({ id: number; error?: string } & ExitStatus)

export type PipeName = 'stdin' | 'stdout' | 'channel'
