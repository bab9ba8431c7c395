import type { Setting } from './setting.ts'
import { wholeNumber } from './setting-values.ts'

/** Limits of pushes that wait for their runs: `git push -o wait`. */
export const waitingPushSettings = {
  pushWaitSeconds: {
    variable: 'SVC_PUSH_WAIT_SECONDS',
    description: 'How long a push with the option `wait` waits for its workflow runs.',
    accepts: 'seconds from 1 to 3000',
    fallback: '600',
    parse: wholeNumber(1, 3000),
  } satisfies Setting<number>,
  maxWaitingPushes: {
    variable: 'SVC_WAITING_PUSHES',
    description:
      'Maximum number of pushes that wait for their workflow runs at a time, at most 4 of one user and 4 to one repository. Further ones are refused.',
    accepts: 'a whole number from 0 to 1000',
    fallback: '32',
    parse: wholeNumber(0, 1000),
  } satisfies Setting<number>,
}
