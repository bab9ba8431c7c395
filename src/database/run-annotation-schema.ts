/** What a step of a run says about a file of its commit, or in general. */
export type RunAnnotationRow = {
  runId: string
  attempt: number
  /** The order within the attempt. */
  number: number
  step: number
  level: 'error' | 'warning' | 'notice'
  /** Empty for none. */
  file: string
  line: number | null
  endLine: number | null
  col: number | null
  endCol: number | null
  title: string
  message: string
}
