import { dayMs } from '#base/clock.ts'
import type { MaintenanceExtent, Storage } from '#git/maintenance/maintain.ts'
import type { Maintained } from './maintenance-store.ts'

export const pruneIntervalMs = 7 * dayMs
const retryAfterMs = 10 * 60_000

/** The extent that was requested, or else full once objects that a push left behind may have expired. */
export function dueExtent(
  { wanted, isUnpruned, prunedAt }: Pick<Maintained, 'wanted' | 'isUnpruned' | 'prunedAt'>,
  now: number,
): MaintenanceExtent {
  if (wanted === 'full' || wanted === 'quick') return wanted
  return isUnpruned === 1 && prunedAt < now - pruneIntervalMs ? 'full' : 'quick'
}

/**
 * The extent for which there is space, and an error when that is less than preferred. A repack needs the space of its
 * packs a second time until it ends; a quick repack leaves out the largest pack.
 */
export function affordableExtent(
  preferred: MaintenanceExtent,
  { bytes, largest }: Pick<Storage, 'bytes' | 'largest'>,
  availableBytes: number,
): { extent: MaintenanceExtent; error?: Error } {
  const neededBytes = preferred === 'full' ? bytes : bytes - largest
  if (availableBytes >= neededBytes) return { extent: preferred }
  const error = new Error(
    `Only ${availableBytes} bytes are available; repacking ${bytes} bytes of packs may need as many.`,
  )
  return { extent: 'refs', error }
}

/** The delay before the next attempt; it doubles with each failure, up to a day. */
export function retryDelayMs(failures: number): number {
  return Math.min(dayMs, retryAfterMs * 2 ** Math.min(failures, 10))
}
