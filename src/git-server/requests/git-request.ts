import type { Writable } from 'node:stream'
import { limitKeyOf, type Principal } from '#access/principal.ts'
import type { Repository } from '#repositories/repositories.ts'

export type Service = 'git-upload-pack' | 'git-receive-pack'

/** Where a response is written, over HTTP or SSH. Its caller ends it. */
export type GitResponse = {
  output: Writable
  /** Called before the first byte of output, or when there is none; with the size in bytes if it is known. */
  begin: (size?: number) => void
  /** Sends a short response whole, in place of `begin` and `output`. */
  respondWithBytes: (bytes: Buffer) => void
  hasBegun: () => boolean
  /** The bytes that were sent on the connection; absent within the server. */
  sentBytes?: () => number
  /** Called when the response to a push is complete; git may take a moment more to exit. */
  onComplete: () => void
}

/** Git's exit code; null when it was killed and its output is incomplete. A `refused` response ends with the reason. */
export type RequestOutcome = number | null | 'refused'

/** A Git request whose principal and repository are known. */
export type GitRequest = {
  principal: Principal
  repository: Repository
  /** The requested version of Git's protocol: `version=1`, `version=2` or the empty string. */
  protocol: string
  response: GitResponse
  /** Whether the client still has bytes to send that git would read. */
  isReceiving: () => boolean
  /** Whether a client that sends nothing is known to be there. */
  isAlive: () => boolean
  /** Whether the client reads the response only after sending its whole request; the rest is then read and dropped. */
  sendsAllFirst: boolean
  /** Aborted when the client is gone. */
  signal: AbortSignal
  /** Called when the pack of a push has arrived, before it is authorized. */
  onReceived?: () => void
}

/** The highest known version in a GIT_PROTOCOL value; anything else in it is dropped. */
export function protocolIn(requested: string): string {
  const versions = requested.split(':').filter((key) => /^version=[012]$/.test(key))
  return versions.sort().at(-1) ?? ''
}

/** The limiter keys of a request: its user, then its repository. */
export function keysOf(request: Pick<GitRequest, 'principal' | 'repository'>): string[] {
  return [limitKeyOf(request.principal), request.repository.id]
}

export function respondEmpty(response: GitResponse): RequestOutcome {
  response.respondWithBytes(Buffer.alloc(0))
  return 0
}
