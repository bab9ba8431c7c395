import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'

/**
 * Removes the cache when the machine has started again since it was written: nothing in it is synced to the disk, so a
 * power failure may have left files with other content than git wrote. A killed process leaves its writes with the system.
 */
export async function dropUnsyncedCache(dataDir: string): Promise<void> {
  const file = join(dataDir, 'cache-boot')
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
  if ((await readFile(file, 'utf8').catch(ignoreAbsence)) === boot) return
  await rm(join(dataDir, 'cache'), { recursive: true, force: true })
  await writeFile(file, boot, { mode: 0o600 })
}
