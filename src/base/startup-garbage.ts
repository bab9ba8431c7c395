import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

// Of no use to a program that ends soon.
const delayMs = 10_000

/**
 * Returns the memory that only the start of a program needed to the system, once, by a full garbage collection. V8 would
 * otherwise keep it while the program is idle.
 *
 * Measured: an idle service has 90 instead of 110 MB, for 0.13 s of CPU time in all its processes; its spawn helper has 1
 * MB less. Nothing depends on it.
 */
export function dropStartupGarbage(): void {
  setTimeout(() => {
    setFlagsFromString('--expose-gc')
    // The flag takes effect in new contexts only. The `last-resort` flavor is the one that returns memory.
    runInNewContext('gc')({ type: 'major', execution: 'sync', flavor: 'last-resort' })
  }, delayMs).unref()
}
