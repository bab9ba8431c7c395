/** A run as the API lists it. */
export type RunSummary = {
  id: string
  repoName: string
  number: number
  name: string
  branch: string
  ref: string
  commit: string
  event: string
  actor: string
  files: string[]
  labels: string[]
  restricted: boolean
  needsApproval: boolean
  inputs: Record<string, string | number | boolean>
  status: string
  conclusion: string | null
  attempt: number
  createdAt: number
  queuedAt: number
  startedAt: number | null
  completedAt: number | null
  isolation: string | null
  fault: string | null
  /** Null until it has completed. */
  result: { success: boolean; duration: number; steps: StepSummary[] } | null
  /** Null when it has completed. */
  steps: StepSummary[] | null
}

export type StepSummary = {
  number: number
  name: string
  workflow: string
  file: string
  job: string
  status: string
  conclusion: string | null
  success: boolean
  exitCode: number | null
  output: string
  fault: string | null
  summary: string | null
  startedAt: number | null
  completedAt: number | null
  duration: number
}
