import { packChecksumBytes, packHeaderBytes } from '../objects/pack.ts'
import { gitCommands } from '../process/commands.ts'
import type { Git, GitStartOptions } from '../process/git-process.ts'

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
  const input = [...wants, ...[...excluded].map((id) => `^${id}`)].map((line) => `${line}\n`)
  const limit = packHeaderBytes + maxBytes + packChecksumBytes
  const pack = await git.runUpTo(limit, command, { ...options, input: input.join('') })
  if (!pack) return undefined
  const entries = pack.subarray(packHeaderBytes, -packChecksumBytes)
  return { objects: pack.readUInt32BE(8), pack, entries }
}
