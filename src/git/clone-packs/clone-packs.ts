import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { absentAs } from '#base/absence.ts'
import { readFingerprint } from '#base/file-fingerprint.ts'
import { createKnownFiles } from '#base/known-files.ts'

/** A pack of a repository, by the name of its file without the extension. */
export type ClonePack = { name: string; objects: number; bytes: number }

/** Packs that together hold exactly the objects that some objects reach, these included, and each of them once. */
export type ClonePacks = { tips: ReadonlySet<string>; packs: readonly ClonePack[] }

/** The file of the record, in the directory of the repository. */
export const clonePacksFile = 'svc-clone-packs'

/** More tips or packs are not recorded, and not more of them. */
export const maxTips = 4096
export const maxPacks = 8
export const maxRecorded = 4

const version = 'version 1'
const next = 'packs'
const end = 'end'
const known = createKnownFiles<ClonePacks[]>(64)

export function packPath(directory: string, name: string): string {
  return join(directory, 'objects', 'pack', `${name}.pack`)
}

/** Reads the record of a repository, most objects first. Packs may be gone meanwhile. */
export async function readClonePacks(directory: string): Promise<readonly ClonePacks[]> {
  const path = join(directory, clonePacksFile)
  const fingerprint = readFingerprint(path)
  if (!fingerprint) return []
  const before = known.get(path, fingerprint)
  if (before) return before
  const recorded = parse(await readFile(path, 'utf8').catch(absentAs('')))
  // Concurrent readers get the same array: what was made for another one is made again.
  const meanwhile = known.get(path, fingerprint)
  if (meanwhile) return meanwhile
  known.set(path, fingerprint, recorded)
  return recorded
}

/** Replaces the record of a repository. */
export async function writeClonePacks(
  directory: string,
  recorded: readonly ClonePacks[],
): Promise<void> {
  const lines = recorded.flatMap(({ tips, packs }) => [
    next,
    ...packs.map(({ name, objects, bytes }) => `pack ${name} ${objects} ${bytes}`),
    ...[...tips].map((tip) => `tip ${tip}`),
  ])
  const path = join(directory, clonePacksFile)
  await writeFile(`${path}.new`, `${[version, ...lines, end].join('\n')}\n`, { mode: 0o600 })
  await rename(`${path}.new`, path)
}

/** Empty for a record that a crash or another version left. */
function parse(text: string): ClonePacks[] {
  const lines = text.split('\n')
  if (lines.shift() !== version || lines.pop() !== '' || lines.pop() !== end) return []
  const recorded: { tips: Set<string>; packs: ClonePack[] }[] = []
  for (const line of lines) {
    const [, name, objects, bytes] = /^pack (pack-[0-9a-f]{40,64}) (\d+) (\d+)$/.exec(line) ?? []
    const [, tip] = /^tip ([0-9a-f]{40,64})$/.exec(line) ?? []
    const last = recorded.at(-1)
    if (line === next) recorded.push({ tips: new Set(), packs: [] })
    else if (name) last?.packs.push({ name, objects: Number(objects), bytes: Number(bytes) })
    else if (tip) last?.tips.add(tip)
    else return []
  }
  return recorded
}
