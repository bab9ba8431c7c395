import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import { shellWord } from '#base/shell-word.ts'
import type { Check } from '../check.ts'
import { listRunFiles } from '../doctor-store.ts'
import { countOrNo, type Findings, fault, firstOf, ok, orOk, warning } from '../finding.ts'

/** Checks that the data directory has the file of every artifact and cache, and no other. */
export const runFilesCheck: Check = {
  id: 'run-files',
  title: 'artifacts and caches against their files',
  async run(context) {
    if (context.setting('store')) return ok('They are in the bucket of SVC_STORE.')
    const folder = join(await context.dataDir(), 'run-files')
    const before = await context.read(listRunFiles)
    const paths = await listFiles(folder)
    const after = await context.read(listRunFiles)
    const idsBefore = new Set(before.map(({ id }) => id))
    // A file that was added or deleted meanwhile is not a finding.
    const kept = after.filter(({ id, state }) => state === 'kept' && idsBefore.has(id))
    const findings: Findings[] = []
    for (const { id, size } of kept) {
      const bytes = paths.get(id)?.bytes
      if (bytes === size) continue
      findings.push(
        fault(
          `The file ${id} of an artifact or cache ${bytes === undefined ? 'is missing' : `has ${bytes} bytes instead of ${size}`}.`,
          'Delete it with svc artifacts delete or svc caches delete; a new run makes it again.',
        ),
      )
    }
    const recordedIds = new Set([...before, ...after].map(({ id }) => id))
    const strays = [...paths]
      .filter(([id]) => !recordedIds.has(id))
      .map(([, { path }]) =>
        warning(`The database does not know ${path}.`, `rm ${shellWord(path)}`),
      )
    return orOk(
      [firstOf(findings), firstOf(strays)],
      `${countOrNo(kept.length, 'file')}, all in their places.`,
    )
  },
}

/** The files in a folder, by their ids. */
async function listFiles(folder: string): Promise<Map<string, { path: string; bytes: number }>> {
  const reading = readdir(folder, { recursive: true, withFileTypes: true })
  const entries = (await reading.catch(ignoreAbsence)) ?? []
  const files = new Map<string, { path: string; bytes: number }>()
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name)
    const stats = entry.isFile() ? await stat(path).catch(() => undefined) : undefined
    if (stats) files.set(entry.name, { path, bytes: stats.size })
  }
  return files
}
