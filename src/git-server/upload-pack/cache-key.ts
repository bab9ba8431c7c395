import { createHash } from 'node:crypto'
import { objectIdPattern } from '#base/object-id.ts'
import { firstPacket } from '#git/protocol/pkt-line.ts'
import { createRepositoryVersions } from '#git/refs/repository-version.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { SmallPacks } from '../small-packs/small-packs.ts'

/** Identifies a response, with the directory of its repository. */
export type CacheKey = {
  id: string
  directory: string
  /** Whether it is a shallow clone, which will probably be requested again. */
  isShallowClone: boolean
}

/** Returns the key of a request; undefined when its response is not cacheable. */
export type CacheKeyOf = (
  repository: Pick<Repository, 'id' | 'path'>,
  request: FetchRequest,
) => CacheKey | undefined

/** A `fetch` command whose response is the same for every client. */
export type FetchRequest = {
  /** The command without the client's agent: equal bytes have equal responses. */
  canonical: Buffer
  /** Whether it names objects of the client: the response then also says which of them the server has. */
  hasHaves: boolean
  /** Whether tags that point to sent objects are included. */
  includesTags: boolean
  /** Whether it clones a part of the history. */
  isShallowClone: boolean
  /** What it wants, when the response is a pack of all that these objects reach, which may have deltas with offsets. */
  clones?: ReadonlySet<string>
  /** When it wants one object beyond some that the client has. */
  follows?: Parameters<SmallPacks['answer']>[1]
}

// Longer requests are rare, and parsing one blocks the event loop.
const maxLines = 4096

const capabilities = /^(command=fetch|object-format=sha(1|256))\n?$/
const agent = /^agent=/
const flags = [
  'done',
  'thin-pack',
  'no-progress',
  'include-tag',
  'ofs-delta',
  'deepen-relative',
  'wait-for-done',
]
// Not sparse:oid, which may name a file by a branch, and branches move.
const filter = '(blob:none|blob:limit=\\d+[kmg]?|tree:\\d+|object:type=(blob|tree|commit|tag))'
const known = new RegExp(
  `^(${flags.join('|')}|(want|have|shallow) ${objectIdPattern}|deepen(-since)? \\d+|filter ${filter})\\n?$`,
)

export function createCacheKeyOf(): CacheKeyOf {
  const versions = createRepositoryVersions()

  return (repository, request) => {
    const { canonical, hasHaves, includesTags, isShallowClone } = request
    const version = versions.stamp(repository.path, { objects: hasHaves, tags: includesTags })
    if (version === undefined) return undefined
    const hash = createHash('sha256').update(`${repository.id} ${version}\n`)
    const id = hash.update(canonical).digest('base64')
    return { id, directory: repository.path, isShallowClone }
  }
}

const cloneArguments = new Set(['want', 'done', 'ofs-delta', 'thin-pack', 'no-progress'])

function isClone(given: ReadonlySet<string>): boolean {
  return given.has('done') && given.has('ofs-delta') && given.isSubsetOf(cloneArguments)
}

const followArguments = new Set([...cloneArguments, 'have', 'include-tag'])

function followed(
  given: ReadonlySet<string>,
  wants: ReadonlySet<string>,
  haves: ReadonlySet<string>,
): Pick<FetchRequest, 'follows'> {
  const [wanted, ...others] = wants
  const isPlain = given.isSubsetOf(followArguments)
  const takesDeltas = given.has('thin-pack') && given.has('ofs-delta')
  if (!wanted || others.length > 0 || haves.size === 0 || !isPlain || !takesDeltas) return {}
  return { follows: { wanted, haves, isDone: given.has('done') } }
}

/**
 * Parses a `fetch` command of protocol version 2: https://git-scm.com/docs/protocol-v2. Undefined for one with unknown
 * arguments, or whose response depends on more than the command, the objects and the tags.
 */
export function readFetchRequest(input: Buffer): FetchRequest | undefined {
  const kept: Buffer[] = []
  let part: 'capabilities' | 'arguments' = 'capabilities'
  const wants = new Set<string>()
  const haves = new Set<string>()
  const given = new Set<string>()
  for (let at = 0, lines = 0; lines < maxLines; lines++) {
    const found = firstPacket(input.subarray(at))
    if (typeof found !== 'object') return undefined
    const { packet, length } = found
    const whole = input.subarray(at, at + length)
    at += length
    if (packet.kind === 'data') {
      const line = packet.payload.toString('latin1')
      const isFirst = kept.length === 0
      if (isFirst !== line.startsWith('command=')) return undefined
      if (part === 'capabilities' && agent.test(line)) continue
      if (!(part === 'capabilities' ? capabilities : known).test(line)) return undefined
      const [, name = '', id = ''] = /^(\S+)(?: (\S+))?\n?$/.exec(line) ?? []
      if (part === 'arguments') given.add(name)
      if (name === 'want') wants.add(id)
      if (name === 'have') haves.add(id)
    } else if (packet.kind === 'delimiter' && part === 'capabilities') {
      part = 'arguments'
    } else {
      // Git serves one command and ignores what follows.
      const isComplete = packet.kind === 'flush' && part === 'arguments' && at === input.length
      if (!isComplete) return undefined
      return {
        canonical: Buffer.concat(kept),
        hasHaves: given.has('have'),
        includesTags: given.has('include-tag'),
        isShallowClone: given.has('deepen') && !given.has('have') && !given.has('shallow'),
        ...(isClone(given) && { clones: wants }),
        ...followed(given, wants, haves),
      }
    }
    kept.push(whole)
  }
  return undefined
}
