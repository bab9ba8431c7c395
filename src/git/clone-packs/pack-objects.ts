import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { absentAs } from '#base/absence.ts'
import { formatOf, idBytes } from '#base/object-id.ts'
import { packHeaderBytes } from '../objects/pack.ts'
import { gitCommands } from '../process/commands.ts'
import type { Git, GitStartOptions } from '../process/git-process.ts'
import { branchPrefix, readDefaultBranch } from '../refs/refs.ts'

/** A pack, and its entries without its header and its checksum: gitformat-pack(5). */
export type PackedObjects = { objects: number; pack: Buffer; entries: Buffer }

type Wanted = {
  /** Ids of objects: they and all that they reach are packed, */
  wants: Iterable<string>
  /** except for what these reach, */
  excluded: Iterable<string>
  /** and for the objects of these packs. */
  keptPacks: readonly { name: string }[]
  maxBytes: number
}

/** Packs objects; undefined when they exceed `maxBytes`. Throws a GitError when one of them is missing. */
export async function packObjects(
  git: Git,
  directory: string,
  { wants, excluded, keptPacks, maxBytes }: Wanted,
  options: GitStartOptions = {},
): Promise<PackedObjects | undefined> {
  const command = gitCommands.packBetween(directory, ...keptPacks.map(({ name }) => name))
  const ids = [...wants]
  const checksumBytes = idBytes(formatOf(ids[0] ?? ''))
  const input = [...ids, ...[...excluded].map((id) => `^${id}`)].map((line) => `${line}\n`)
  const limit = packHeaderBytes + maxBytes + checksumBytes
  const pack = await git.runUpTo(limit, command, { ...options, input: input.join('') })
  if (!pack) return undefined
  const entries = pack.subarray(packHeaderBytes, -checksumBytes)
  return { objects: pack.readUInt32BE(8), pack, entries }
}

/** The pack that has only what the tip of the default branch reaches, by its name. */
export type MainlinePack = { tip: string; pack: string }

// Distinguishes the file from those of git, which keeps the packs of a push in this way.
const keepText = 'svc\n'

/**
 * Packs the default branch alone, and keeps the pack as it is in repacks until `releaseMainline`. Undefined without such a
 * branch. Throws a GitError.
 */
export async function packMainline(
  directory: string,
  refs: ReadonlyMap<string, string>,
  git: Git,
  options: GitStartOptions,
): Promise<MainlinePack | undefined> {
  const tip = refs.get(branchPrefix + (await readDefaultBranch(directory)))
  if (tip === undefined) return undefined
  const command = gitCommands.writePack(directory)
  const pack = `pack-${(await git.run(command, { ...options, input: `${tip}\n` })).trim()}`
  await writeFile(join(directory, 'objects', 'pack', `${pack}.keep`), keepText)
  return { tip, pack }
}

/** Lets repacks merge the pack again, also one that a crash left. */
export async function releaseMainline(directory: string): Promise<void> {
  const folder = join(directory, 'objects', 'pack')
  for (const name of await readdir(folder)) {
    if (!name.endsWith('.keep')) continue
    const path = join(folder, name)
    if ((await readFile(path, 'utf8').catch(absentAs(''))) === keepText) await rm(path)
  }
}
