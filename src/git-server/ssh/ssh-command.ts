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
  /** The second argument. */
  operation: string
  protocol: string
  response: GitResponse
  input: Body
  isReceiving: () => boolean
  isAlive: () => boolean
  signal: AbortSignal
}

type Common = {
  /** The arguments of the command: a repository, what to do with it, or none. */
  usage: '<name>' | '<name> <operation>' | ''
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

const piece = /'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^\s'"\\]+)/gsy
const space = /\s+/gy

/**
 * Splits a command line into words, with the quotes of a shell as Git writes them (quote.c, sq_quote_buf) and people
 * type them. Nothing is expanded. Undefined when a quote is not closed.
 */
export function toWords(line: string): string[] | undefined {
  const words: string[] = []
  let word: string | undefined
  let position = 0
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = position
    const found = pattern.exec(line)
    if (found) position = pattern.lastIndex
    return found
  }
  while (position < line.length) {
    if (match(space)) {
      if (word !== undefined) words.push(word)
      word = undefined
      continue
    }
    const found = match(piece)
    if (!found) return undefined
    const [, single, double, escaped, plain] = found
    word = (word ?? '') + (single ?? double?.replace(/\\(.)/gs, '$1') ?? escaped ?? plain ?? '')
  }
  if (word !== undefined) words.push(word)
  return words
}
