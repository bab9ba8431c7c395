import type { Log } from '../base/log.ts'

const sweepEveryMs = 60_000

/** Does each work once a minute until it is disposed of; `what` says what has failed when one does. */
export function startSweeping(works: Record<string, () => Promise<unknown>>, log: Log): Disposable {
  const sweeping = setInterval(() => {
    for (const [what, work] of Object.entries(works)) {
      work().catch((error) => log.error({ err: error }, `${what} failed`))
    }
  }, sweepEveryMs)
  return { [Symbol.dispose]: () => clearInterval(sweeping) }
}
