import type { Writable } from 'node:stream'
import type { Principal } from '../../access/principal.ts'
import type { Repository } from '../../repositories/repositories.ts'

export type Service = 'git-upload-pack' | 'git-receive-pack'

/** Where a response is written, over HTTP or SSH. Its caller ends it. */
export type GitResponse = {
  output: Writable
  /** Called before the first byte of output, or when there is none; with all their number if it is known. */
  begin: (size?: number) => void
  /** Begins and says all of an answer that is short, in place of `begin` and `output`. */
  respondWithBytes: (bytes: Buffer) => void
  hasBegun: () => boolean
  /** Called when all of a push's answer is said; git may take a moment more to end. */
  onSaid: () => void
}

/**
 * Git's exit code; null when it was killed, and has not said all that it had to say. A response that was `refused` ends
 * with the reason.
 */
export type RequestOutcome = number | null | 'refused'

/** A Git request whose principal and repository are known. */
export type GitRequest = {
  principal: Principal
  repository: Repository
  /** Version of Git's protocol that the client asks for: `version=1`, `version=2` or nothing. */
  protocol: string
  answer: GitResponse
  /** Whether the client has more to send, and git would take it. */
  isReceiving: () => boolean
  /** Whether the client reads an answer only after it has sent all: then the rest of a request is read and dropped. */
  sendsAllFirst: boolean
  /** Aborted when the client is gone. */
  signal: AbortSignal
}

/** The highest version of Git's protocol in what a client asks for, as git takes it; anything else is not passed on. */
export function protocolIn(asked: string): string {
  const versions = asked.split(':').filter((key) => /^version=[012]$/.test(key))
  return versions.sort().at(-1) ?? ''
}

/** Whose turn a request takes: all tokens and keys of a username share theirs. */
export function keysOf(request: Pick<GitRequest, 'principal' | 'repository'>): string[] {
  const { principal, repository } = request
  return [principal.username || principal.id, repository.id]
}

export function answerEmpty(answer: GitResponse): RequestOutcome {
  answer.respondWithBytes(Buffer.alloc(0))
  return 0
}
