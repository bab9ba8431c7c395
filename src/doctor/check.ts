import type { DoctorContext } from './context.ts'
import type { Finding } from './finding.ts'

export type Check = {
  id: string
  /** What is looked at, in a few words. */
  title: string
  /** Whether it takes as long as there is much to look at; any other is given up after a while. */
  isLong?: boolean
  run: (context: DoctorContext) => Promise<Finding[]>
}
