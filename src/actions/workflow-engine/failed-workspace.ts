import type { Workspace, WorkspaceCommand } from '../sandbox/sandbox.ts'

/** How a command of a step runs: its variables, its directory and its network. */
export type CommandSetting = Pick<WorkspaceCommand, 'env' | 'cwd' | 'network'>

/** The workspace of a failed job, after all its steps. */
export type FailedWorkspace = {
  /** The name of the job, masked. */
  job: string
  workspace: Workspace
  /** The setting of the command that failed. */
  setting: CommandSetting
}

/** Takes the workspace of a failed job. Returns whether it keeps it, and so disposes it later. Never rejects. */
export type KeepFailed = (failed: FailedWorkspace) => Promise<boolean>
