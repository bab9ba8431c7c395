import { isObjectId } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import { fromGitId, isRefName, refMaxLength } from '../refs/ref-name.ts'
import type { RefUpdate } from '../refs/refs.ts'
import { firstPacket } from './pkt-line.ts'
import { type Body, prepend } from './request-body.ts'

/** The commands of a push, which precede its pack, and the whole body, not yet consumed. */
export type PushRequest = {
  updates: RefUpdate[]
  capabilities: Set<string>
  /** Push options in order: `git push -o`. */
  options: string[]
  /** Whether the client's repository has commits without their parents. */
  isShallow: boolean
  /** Number of bytes before the pack: the commands and the push options. */
  commandBytes: number
  whole: Body
  /** Waits for the first byte of the pack, where one follows. */
  awaitPack: () => Promise<void>
}

// A line has two ids, a ref name and, in the first one, capabilities; `shallow` lines precede them. A few may be longer,
// so that a ref name that is too long is refused as such.
const lineMeanBytes = 4096
const shownNameLength = 100
const otherLines = 1000
// Git passes options to hooks in environment variables, whose size the system limits.
export const maxPushOptions = 100
const optionMaxBytes = 4096

/**
 * Reads the commands and the options of a push: "Reference Update Request" in https://git-scm.com/docs/pack-protocol.
 * Git checks ref names only after its hooks, and works on each command, so invalid names, duplicate refs and too many
 * updates are rejected here. The Problem is returned as `refusal`, to be reported in the client's own protocol.
 */
export async function readPushRequest(
  body: Body,
  maxUpdates: number,
): Promise<PushRequest & { refusal: Problem | undefined }> {
  const reader = createPacketReader(body)
  const lines = await readCommands(reader, maxUpdates + otherLines)
  const capabilities = capabilitiesIn(lines)
  const isShallow = lines.some((line) => !isCommand(line.toString('latin1')))
  const end = () => ({
    capabilities,
    isShallow,
    commandBytes: reader.bytesRead(),
    whole: reader.whole(),
    awaitPack: reader.awaitMore,
  })
  try {
    const updates = toUpdates(lines, maxUpdates)
    // Git reads no options where there is nothing to update.
    const hasOptions = capabilities.has('push-options') && updates.length > 0
    const options = hasOptions ? await readOptions(reader) : []
    return { updates, options, ...end(), refusal: undefined }
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    return { updates: [], options: [], ...end(), refusal: error }
  }
}

type PacketReader = ReturnType<typeof createPacketReader>

/** Reads packets up to flush packets, and keeps all bytes, since git receives the whole body. */
function createPacketReader(body: Body) {
  const chunks: Buffer[] = []
  let rest: Buffer = Buffer.alloc(0)

  return {
    /** Reads the payload of the next packet; undefined for a flush packet. */
    async next(): Promise<Buffer | undefined> {
      for (;;) {
        const found = firstPacket(rest)
        if (found === 'malformed') throw malformed()
        if (found === 'incomplete') {
          const { value } = await body.next()
          if (!value) throw chunks.length === 0 ? unbegun() : malformed()
          chunks.push(value)
          rest = Buffer.concat([rest, value])
          continue
        }
        rest = rest.subarray(found.length)
        if (found.packet.kind === 'flush') return undefined
        if (found.packet.kind !== 'data') throw malformed()
        return found.packet.payload
      }
    },
    bytesRead: () => sizeOf(chunks) - rest.length,

    /** Waits for bytes after the packets that were read, or the end. */
    async awaitMore(): Promise<void> {
      if (rest.length > 0) return
      const { value } = await body.next()
      if (!value) return
      chunks.push(value)
      rest = value
    },

    whole: () => prepend(chunks, body),
  }
}

async function readCommands(reader: PacketReader, maxLines: number): Promise<Buffer[]> {
  const lines: Buffer[] = []
  let maxBytes = maxLines * lineMeanBytes
  while (lines.length <= maxLines) {
    const line = await reader.next()
    if (!line) break
    maxBytes -= line.length
    if (maxBytes < 0) throw malformed()
    lines.push(line)
  }
  return lines
}

async function readOptions(reader: PacketReader): Promise<string[]> {
  const options: string[] = []
  for (;;) {
    const line = await reader.next()
    if (!line) return options
    if (options.length === maxPushOptions) {
      throw new Problem(
        'malformed_git_request',
        `A push may have at most ${maxPushOptions} options.`,
      )
    }
    if (line.length > optionMaxBytes) {
      throw new Problem(
        'malformed_git_request',
        `A push option may have at most ${optionMaxBytes} bytes.`,
      )
    }
    options.push(line.toString('utf8').replace(/\n$/, ''))
  }
}

// Git's clients send capabilities with the first command. The server accepts them with any, separated by any whitespace,
// and ignores superfluous values.
function capabilitiesIn(lines: Buffer[]): Set<string> {
  const texts = lines.map((line) => line.toString('latin1')).filter(isCommand)
  const all = texts.flatMap((text) => text.split('\0')[1]?.trim().split(/\s+/) ?? [])
  return new Set(all.flatMap((capability) => [capability, capability.split('=')[0] ?? '']))
}

function sizeOf(chunks: Buffer[]): number {
  return chunks.reduce((sum, { length }) => sum + length, 0)
}

function toUpdates(lines: Buffer[], maxUpdates: number): RefUpdate[] {
  const commands = lines.filter((line) => isCommand(line.toString('latin1')))
  if (commands.length > maxUpdates) {
    throw new Problem(
      'too_many_ref_updates',
      `A push may change at most ${maxUpdates} refs; push them in parts.`,
    )
  }
  const updates = new Map<string, RefUpdate>()
  for (const command of commands) {
    const update = toUpdate(command)
    if (updates.has(update.ref)) {
      throw new Problem('ref_name_refused', `The push updates the ref "${update.ref}" twice.`)
    }
    updates.set(update.ref, update)
  }
  return [...updates.values()]
}

function toUpdate(line: Buffer): RefUpdate {
  const end = line.indexOf(0)
  // Git strips a newline at the end of a packet, but not before capabilities.
  const text = end === -1 ? decode(line).replace(/\n$/, '') : decode(line.subarray(0, end))
  const [, before = '', after = '', ref = ''] = /^([0-9a-f]+) ([0-9a-f]+) (.*)$/s.exec(text) ?? []
  if (!isObjectId(before) || !isObjectId(after) || before.length !== after.length) throw malformed()
  if (!isRefName(ref)) {
    throw new Problem('ref_name_refused', `${describe(ref)} is not a ref name.`)
  }
  return { ref, before: fromGitId(before), after: fromGitId(after) }
}

function describe(ref: string): string {
  if (ref.length <= shownNameLength) return JSON.stringify(ref)
  const reason = ref.length > refMaxLength ? `, which may have at most ${refMaxLength}` : ''
  return `${JSON.stringify(`${ref.slice(0, shownNameLength)}…`)}, of ${ref.length} characters${reason},`
}

function isCommand(line: string): boolean {
  return !line.startsWith('shallow ')
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new Problem('ref_name_refused', 'A ref name in this push is not UTF-8.')
  }
}

// A client that pushes nothing sends a flush packet; one that cannot use the advertisement hangs up. Over SSH this is the
// only chance to explain why.
function unbegun(): Problem {
  return new Problem(
    'malformed_git_request',
    'The client sent no request: it needs what this service does not offer, such as signed pushes (git push --signed), ' +
      'or its repository has another object format: SHA-1 and SHA-256 cannot be mixed.',
  )
}

function malformed(): Problem {
  return new Problem(
    'malformed_git_request',
    'The request does not begin as a push in the Git protocol.',
  )
}
