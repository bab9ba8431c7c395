import { parentsIn } from '#git/objects/pack.ts'

// Parsing blocks the event loop. A pack is parsed from its start for each chunk.
const packMaxBytes = 64 * 1024
const maxChunks = 16

/** `apart` when the pack has the commit's whole history; `unknown` when the pack cannot be parsed. */
export type BuildsOn = 'yes' | 'apart' | 'no' | 'unknown'

type Update = Record<'before' | 'after', string>

/** Parses a pushed pack as it arrives after the commands of a push. */
export function createPackInspector(update: Update, commandBytes: number) {
  const chunks: Buffer[] = []
  return {
    /** Adds a chunk of the request; undefined while more are needed. */
    add(chunk: Buffer): BuildsOn | undefined {
      chunks.push(chunk)
      const pack = Buffer.concat(chunks).subarray(commandBytes)
      if (chunks.length > maxChunks || pack.length > packMaxBytes) return 'unknown'
      return buildsOn(pack, update)
    },
  }
}

/**
 * Whether the history of `after` consists of new commits in a small pack, all based on `before`; then the update is a
 * fast-forward. Undefined while the pack is incomplete. See https://git-scm.com/docs/pack-format
 */
export function buildsOn(pack: Buffer, { before, after }: Update): BuildsOn | undefined {
  const parents = parentsIn(pack)
  if (!(parents instanceof Map)) return parents
  const waiting = [after]
  const seen = new Set<string>()
  let isReached = false
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    isReached ||= id === before
    if (seen.has(id) || id === before) continue
    seen.add(id)
    const known = parents.get(id)
    if (!known) return 'no'
    waiting.push(...known)
  }
  return isReached ? 'yes' : 'apart'
}
