import type { Principal } from '#access/principal.ts'
import type { Body } from '#git/protocol/request-body.ts'
import type { Key } from '#identity/ssh-keys/ssh-keys.ts'
import type { GitResponse, RequestOutcome } from '../requests/git-request.ts'

/** The principal of an SSH command, and its key unless it is anonymous. */
export type SshCaller = { principal: Principal; key: Key | undefined }

/** The invocation of a command. */
export type Call = {
  caller: SshCaller
  /** The repository named by the argument, for a command that takes one. */
  repositoryName: string
  protocol: string
  response: GitResponse
  input: Body
  isReceiving: () => boolean
  isAlive: () => boolean
  signal: AbortSignal
}

type Common = {
  /** The argument of the command: one repository, or none. */
  usage: '<name>' | ''
  summary: string
}

/** A command that prints text, or with `--json` the JSON of the API. */
type PrintingCommand = Common & {
  kind: 'print'
  run: (call: Call) => Promise<{ text: string; json: unknown }>
}

/** A command that Git clients run. */
type GitCommand = Common & { kind: 'git'; run: (call: Call) => Promise<RequestOutcome> }

export type SshCommand = PrintingCommand | GitCommand
