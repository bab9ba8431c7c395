import type { Principal } from '../../access/principal.ts'
import type { Body } from '../../git/protocol/request-body.ts'
import type { Key } from '../../ssh-keys/ssh-keys.ts'
import type { GitResponse, RequestOutcome } from '../requests/git-request.ts'

/** Somebody who came by SSH: as whom, and with which key, if any. */
export type Visitor = { principal: Principal; key: Key | undefined }

/** What a command is run with. */
export type Call = {
  visitor: Visitor
  /** The name in its argument, for a command that takes one. */
  repositoryName: string
  protocol: string
  answer: GitResponse
  input: Body
  isReceiving: () => boolean
  signal: AbortSignal
}

type Common = {
  /** What follows the name: one repository, or nothing. */
  usage: '<name>' | ''
  summary: string
}

/** A command that prints: text for people, or what the API would answer, as JSON. */
type PrintingCommand = Common & {
  kind: 'print'
  run: (call: Call) => Promise<{ text: string; json: unknown }>
}

/** A command that Git's own client runs. */
type GitCommand = Common & { kind: 'git'; run: (call: Call) => Promise<RequestOutcome> }

export type SshCommand = PrintingCommand | GitCommand
