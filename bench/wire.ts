import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { flushPacket, packet } from '../src/git/protocol/pkt-line.ts'
import { median, percentile, takeTurns } from './measure.ts'
import type { Effort } from './operations.ts'
import { say } from './output.ts'

/** A repository of a server, for requests by the wire client. */
export type Target = {
  /** The address of the repository. */
  url: string
  authorization?: string | undefined
  /** Returns the CPU time of the server so far, in ms. */
  cpuMs: () => number
}

/** A job of the client: requests to repeat in sequence, on a number of connections, for a time or once. */
export type Job = { port: number; connections: number; ms: number; requests: string[] }

/** One pass through all requests, in ms; the size is that of the last body, in bytes. */
export type Observed = { latencies: number[]; firstBytes: number[]; seconds: number; bytes: number }

/** The result of one round, in ms, for all requests together. */
export type Sample = {
  perSecond: number
  p50: number
  p99: number
  /** To the first byte of the last body. */
  firstByte: number
  cpu: number
  bytes: number
}

export type WireResult = { what: string; rounds: number; of: Record<string, Sample> }

export type Request = { method: 'GET' | 'POST'; path: string; body?: Buffer; isV2?: boolean }

const mostDifference = 1.05
const agent = 'agent=git/2.39.5'
const delimiter = Buffer.from('0001')

/** The advertisement of version 2, and then the refs that begin with one of some prefixes; without any, all. */
export function listingPair(...prefixes: string[]): Request[] {
  const body = Buffer.concat([
    ...['command=ls-refs\n', agent, 'object-format=sha1'].map(packet),
    delimiter,
    ...['peel\n', 'symrefs\n', ...prefixes.map((prefix) => `ref-prefix ${prefix}\n`)].map(packet),
    flushPacket,
  ])
  return [
    { method: 'GET', path: '/info/refs?service=git-upload-pack', isV2: true },
    { method: 'POST', path: '/git-upload-pack', body, isV2: true },
  ]
}

/** The first request of a push. */
export const pushAdvertisement: Request[] = [
  { method: 'GET', path: '/info/refs?service=git-receive-pack' },
]

/** The requests of a clone of a commit, with an optional depth. */
export function wholeFetch(commit: string, depth?: number): Request[] {
  const wanted = ['no-progress', 'ofs-delta', `want ${commit}\n`]
  const body = Buffer.concat([
    ...['command=fetch', agent, 'object-format=sha1'].map(packet),
    delimiter,
    ...[...wanted, ...(depth ? [`deepen ${depth}`] : []), 'done\n'].map(packet),
    flushPacket,
  ])
  return [{ method: 'POST', path: '/git-upload-pack', body, isV2: true }]
}

/** Sends the same requests to servers alternately, and returns the medians of each. */
export async function wireContest(
  what: string,
  targets: Record<string, Target>,
  { connections, ms, requests, mayDifferInSize = false, ...effort }: WireEffort,
): Promise<WireResult> {
  say(`Measuring: ${what}`)
  await using client = startWireClient()
  const ask =
    (target: Target) =>
    async (round: number): Promise<Sample> => {
      const before = target.cpuMs()
      const job = { port: Number(new URL(target.url).port), connections, ms }
      const seen = await client.work({ ...job, requests: requests(round).map(toText(target)) })
      // Each connection sends one unmeasured request first, unless the job runs only once.
      const count = seen.latencies.length + (ms > 0 ? connections : 0)
      return {
        perSecond: count / seen.seconds,
        p50: percentile(seen.latencies, 0.5),
        p99: percentile(seen.latencies, 0.99),
        firstByte: percentile(seen.firstBytes, 0.5),
        cpu: (target.cpuMs() - before) / count,
        bytes: seen.bytes,
      }
    }
  const contestants = Object.fromEntries(
    Object.entries(targets).map(([name, target]) => [name, ask(target)]),
  )
  const { samples, rounds } = await takeTurns({ contestants, ...effort })
  const of = Object.fromEntries(Object.entries(samples).map(([name, list]) => [name, middle(list)]))
  if (!mayDifferInSize) assertSameSize(what, of)
  return { what, rounds, of }
}

export type WireEffort = Effort & {
  connections: number
  /** The duration of each round; 0 for a single pass. */
  ms: number
  /** The requests of a round. */
  requests: (round: number) => Request[]
  /** Whether the responses are those of different versions. */
  mayDifferInSize?: boolean
}

/** The bytes of a request, in Latin-1. */
export function toText({ url, authorization }: Target): (request: Request) => string {
  const { host, pathname } = new URL(url)
  return ({ method, path, body, isV2 }) => {
    const [, service = ''] = /(git-[a-z]+-pack)/.exec(path) ?? []
    const lines = [
      `${method} ${pathname}${path} HTTP/1.1`,
      `Host: ${host}`,
      'User-Agent: git/2.39.5',
      'Accept: */*',
      ...(authorization ? [`Authorization: ${authorization}`] : []),
      ...(isV2 ? ['Git-Protocol: version=2'] : []),
      ...(body
        ? [`Content-Type: application/x-${service}-request`, `Content-Length: ${body.length}`]
        : []),
    ]
    return `${lines.join('\r\n')}\r\n\r\n${body?.toString('latin1') ?? ''}`
  }
}

/** Starts a client process that executes jobs in sequence. */
export function startWireClient() {
  const program = fileURLToPath(new URL('wire-client.ts', import.meta.url))
  const child = fork(program, { detached: true })
  const ended = once(child, 'exit')
  const failed = ended.then((): never => {
    throw new Error('The client process ended.')
  })
  // An exit is a failure only for callers that wait.
  failed.catch(() => {})
  return {
    async work(job: Job): Promise<Observed> {
      child.send(job)
      const [observed] = await Promise.race([once(child, 'message'), failed])
      return observed
    },
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect()
      await ended
    },
  }
}

function middle(samples: Sample[]): Sample {
  const of = (name: keyof Sample) => median(samples.map((sample) => sample[name]))
  return {
    perSecond: of('perSecond'),
    p50: of('p50'),
    p99: of('p99'),
    firstByte: of('firstByte'),
    cpu: of('cpu'),
    bytes: of('bytes'),
  }
}

// Shorter responses are less work. Capabilities and packing may differ slightly.
function assertSameSize(what: string, of: Record<string, Sample>): void {
  const all = Object.values(of).map(({ bytes }) => bytes)
  if (Math.max(...all) <= Math.min(...all) * mostDifference) return
  const sizes = Object.entries(of).map(([name, { bytes }]) => `${name}: ${bytes}`)
  throw new Error(`${what}: the answers differ in size: ${sizes.join(', ')}`)
}
