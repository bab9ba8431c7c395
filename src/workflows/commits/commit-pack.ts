import { formatOf } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import { gitCommands } from '#git/process/commands.ts'
import type { Git, GitProcess } from '#git/process/git-process.ts'
import {
  delimiterPacket,
  firstPacket,
  flushPacket,
  type Packet,
  packet,
} from '#git/protocol/pkt-line.ts'

type SingleCommit = {
  directory: string
  commit: string
  /** The commit, or an annotated tag of it, which is added. */
  object: string
  signal: AbortSignal
}

/** Streams a commit with its trees and blobs, as a pack. Throws `ref_not_found` when it is gone. */
export async function packCommit(
  git: Git,
  { directory, commit, object, signal }: SingleCommit,
): Promise<AsyncIterable<Buffer>> {
  const child = await start(git, gitCommands.packCommit(directory), { signal })
  child.stdin.end(`--shallow ${commit}\n${object}\n`)
  const chunks: AsyncIterator<Buffer> = child.stdout[Symbol.asyncIterator]()
  const first = await chunks.next()
  if (first.done) {
    const { errorOutput } = await child.ended
    await child[Symbol.asyncDispose]()
    const gone = /bad object|not a valid object|bad revision|unable to/i.test(errorOutput)
    if (!gone) throw new Error(`git pack-objects: ${errorOutput}`)
    throw goneCommit(commit)
  }
  return untilEnd(
    child,
    (async function* () {
      yield first.value
      for (let next = await chunks.next(); !next.done; next = await chunks.next()) yield next.value
    })(),
  )
}

type History = {
  directory: string
  /** Commits and tags. */
  wanted: ReadonlySet<string>
  /** The number of commits from each of them on; 0 for all. */
  depth: number
  signal: AbortSignal
}

/**
 * Streams commits with their history, as a pack, and returns those whose parents it leaves out. Throws `ref_not_found`
 * when one is gone.
 */
export async function packHistory(
  git: Git,
  { directory, wanted, depth, signal }: History,
): Promise<{ shallow: string[]; pack: AsyncIterable<Buffer> }> {
  const options = { signal, protocol: 'version=2' }
  const child = await start(git, gitCommands.fetch(directory), options)
  child.stdin.end(fetchRequest(wanted, depth))
  const packets = packetsOf(child.stdout)
  try {
    const shallow = await readShallow(packets)
    if (shallow) return { shallow, pack: untilEnd(child, dataOf(packets)) }
    const { errorOutput } = await child.ended
    throw new Error(`git upload-pack: ${errorOutput}`)
  } catch (error) {
    await child[Symbol.asyncDispose]()
    throw error
  }
}

/** Reads what comes before the pack; undefined when there is none. */
async function readShallow(packets: AsyncIterator<Packet, void>): Promise<string[] | undefined> {
  const shallow: string[] = []
  for (let next = await packets.next(); !next.done; next = await packets.next()) {
    const line = next.value.kind === 'data' ? next.value.payload.toString('latin1').trim() : ''
    if (line === 'packfile') return shallow
    if (line.startsWith('shallow ')) shallow.push(line.slice('shallow '.length))
    const [, gone] = /^ERR .*not our ref ([0-9a-f]{40,64})$/.exec(line) ?? []
    if (gone !== undefined) throw goneCommit(gone)
  }
  return undefined
}

/** A request of protocol version 2: https://git-scm.com/docs/protocol-v2#_fetch */
function fetchRequest(wanted: ReadonlySet<string>, depth: number): Buffer {
  const [first = ''] = wanted
  const args = [
    'ofs-delta',
    'no-progress',
    ...[...wanted].map((id) => `want ${id}`),
    ...(depth === 0 ? [] : [`deepen ${depth}`]),
    'done',
  ]
  return Buffer.concat([
    packet('command=fetch'),
    packet(`object-format=${formatOf(first)}`),
    delimiterPacket,
    ...args.map((line) => packet(`${line}\n`)),
    flushPacket,
  ])
}

async function* packetsOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Packet, void> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of chunks) {
    rest = Buffer.concat([rest, chunk])
    for (let next = firstPacket(rest); typeof next !== 'string'; next = firstPacket(rest)) {
      rest = rest.subarray(next.length)
      yield next.packet
    }
  }
  if (rest.length > 0) throw new Error('git upload-pack ended within a packet.')
}

/** The content of a pack in side bands: https://git-scm.com/docs/pack-protocol#_packfile_data */
async function* dataOf(packets: AsyncIterable<Packet>): AsyncGenerator<Buffer, void> {
  for await (const one of packets) {
    if (one.kind !== 'data') continue
    const [band] = one.payload
    if (band === 1) yield one.payload.subarray(1)
    if (band === 3) throw new Error(`git upload-pack: ${one.payload.toString('utf8', 1)}`)
  }
}

async function start(
  git: Git,
  command: readonly string[],
  { signal, protocol }: { signal: AbortSignal; protocol?: string },
): Promise<GitProcess> {
  const child = await git.start(command, { ...(protocol !== undefined && { protocol }) })
  signal.addEventListener('abort', () => void child[Symbol.asyncDispose]())
  if (signal.aborted) await child[Symbol.asyncDispose]()
  return child
}

/** Ends the process after its output; an error of the process is one of the output. */
async function* untilEnd(child: GitProcess, output: AsyncIterable<Buffer>) {
  try {
    yield* output
    const { exitCode, errorOutput } = await child.ended
    if (exitCode !== 0) throw new Error(`git ended while it packed commits: ${errorOutput}`)
  } finally {
    await child[Symbol.asyncDispose]()
  }
}

function goneCommit(commit: string): Problem {
  return new Problem('ref_not_found', `The commit ${commit} is no longer in the repository.`)
}
