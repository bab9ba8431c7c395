import { readFile, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import { newId } from '#base/ids.ts'

/**
 * The name of the node with a data directory: it lasts as long as the directory, so that containers with equal hosts
 * and paths have different names.
 */
export async function readNodeName(dataDir: string): Promise<string> {
  const kept = await findNodeName(dataDir)
  if (kept) return kept
  const file = fileOf(dataDir)
  const name = `${hostname()}-${newId()}`
  await writeFile(file, `${name}\n`, { mode: 0o600, flush: true })
  return name
}

/** The name of a data directory that has one. */
export async function findNodeName(dataDir: string): Promise<string | undefined> {
  return (await readFile(fileOf(dataDir), 'utf8').catch(ignoreAbsence))?.trim()
}

function fileOf(dataDir: string): string {
  return join(dataDir, 'node')
}
