import type { DoctorContext } from './context.ts'
import type { Findings } from './finding.ts'

export type Check = {
  id: string
  /** The subject of the check, in a few words. */
  title: string
  /** Whether its duration depends on the amount of data; other checks have a timeout. */
  isLong?: boolean
  run: (context: DoctorContext) => Promise<Findings>
}
