import { firstPacket } from '../../git/protocol/pkt-line.ts'

/** A `fetch` command whose answer is the same for whoever sends it. */
export type FetchRequest = {
  /** All of it but the name of the client's program: what is equal has equal answers. */
  canonical: Buffer
  /** Whether it names objects of the client's: then the answer says which of them the server has, too. */
  hasHaves: boolean
  /** Whether tags of what is sent come with it. */
  includesTags: boolean
}

// Longer ones are rare, and nobody else is answered while they are read.
const linesAtMost = 4096

const capabilities = /^(command=fetch|object-format=sha1)\n?$/
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
// A filter may also name a file by a branch, which moves: sparse:oid.
const filter = '(blob:none|blob:limit=\\d+[kmg]?|tree:\\d+|object:type=(blob|tree|commit|tag))'
const known = new RegExp(
  `^(${flags.join('|')}|(want|have|shallow) [0-9a-f]{40}|deepen(-since)? \\d+|filter ${filter})\\n?$`,
)

/**
 * Reads a `fetch` command of version 2: https://git-scm.com/docs/protocol-v2. Undefined for one that is not
 * understood wholly, or whose answer depends on more than is in it, in the objects and in the tags.
 */
export function readFetchRequest(input: Buffer): FetchRequest | undefined {
  const kept: Buffer[] = []
  let part: 'capabilities' | 'arguments' = 'capabilities'
  let hasHaves = false
  let includesTags = false
  for (let at = 0, lines = 0; lines < linesAtMost; lines++) {
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
      hasHaves ||= line.startsWith('have ')
      includesTags ||= line.startsWith('include-tag')
    } else if (packet.kind === 'delimiter' && part === 'capabilities') {
      part = 'arguments'
    } else {
      // Git answers one command, and does not read what comes after.
      const isWhole = packet.kind === 'flush' && part === 'arguments' && at === input.length
      return isWhole ? { canonical: Buffer.concat(kept), hasHaves, includesTags } : undefined
    }
    kept.push(whole)
  }
  return undefined
}
