import { readFile, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { ignoreAbsence } from '../base/absence.ts'
import { newId } from '../base/ids.ts'

/**
 * The name of the node with a data directory: it lasts as long as the directory, so that containers with equal hosts
 * and paths have different names.
 */
export async function readNodeName(dataDir: string): Promise<string> {
  const file = join(dataDir, 'node')
  const kept = (await readFile(file, 'utf8').catch(ignoreAbsence))?.trim()
  if (kept) return kept
  const name = `${hostname()}-${newId()}`
  await writeFile(file, `${name}\n`, { mode: 0o600, flush: true })
  return name
}
