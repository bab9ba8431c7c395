import type { Json } from '#base/json.ts'
import type { ApiClient, ApiRequest, HttpClient } from '../servers/http-client.ts'
import type { UserGit } from '../servers/user-git.ts'
import type { Columns } from '../terminal/display.ts'
import type { Terminal } from '../terminal/terminal.ts'

/** The arguments and options of a command. */
export type CommandInput = {
  /** The value of an argument; the repository of the clone where it was left out. */
  argument: (name: string) => string
  option: (name: string) => string | undefined
  list: (name: string) => string[] | undefined
  flag: (name: string) => boolean | undefined
}

/** What an option is for, and what its field in the API does not say. */
type OptionRow = {
  description: string
  choices?: string[]
  /** An option that has a meaning only for a server, or only for the data directory. */
  only?: 'server' | 'local'
}

/** The options of a command: flags as Commander takes them, and what they are for. */
export type OptionRows = Record<string, string | OptionRow>

/** Fields of the query or the body of a request. */
export type RequestFields = Record<string, unknown>

/** What a custom command works with. */
export type Work = {
  client: ApiClient
  input: CommandInput
  /** The request of the first operation, or of the one that is named, with some fields set. */
  request: (fields?: RequestFields, operationId?: string) => ApiRequest
  terminal: Terminal
  git: UserGit
  environment: NodeJS.ProcessEnv
  /** The width of standard output; undefined if it is not a terminal. */
  columns: number | undefined
  json: boolean
  /** The name of the server in the list of servers, if it is in it. */
  serverName: string | undefined
  launcher: string
}

/** What a custom command works with that reads streams, which only a server has. */
export type ServerWork = Work & { client: HttpClient }

/**
 * A command for operations of the API: what their schemas do not say. Tables of these define the client. Arguments and
 * options with the name of a field, which may be in the singular, are its value; the other arguments are those of the path.
 */
export type ClientOperation = {
  /** The words of the command, such as `repos list`. */
  command: string
  /** The operations of the API that it uses, by their id in the OpenAPI document. */
  operations: [string, ...string[]]
  /** Chooses the operation that is performed, if it is not always the first one. */
  choose?: (input: CommandInput) => string
  summary: string
  /** Whether it also works on a data directory. */
  isLocal?: true
  /** The names of its arguments. `repository` may be left out in a clone; `[name]` is optional. */
  arguments?: string[]
  options?: OptionRows
  /** Fields of the request with other values than those of arguments and options. */
  fill?: (input: CommandInput) => RequestFields
  /** A text after the help. */
  notes?: string
  /** For an action that cannot be undone: the question, and the answer that confirms it. */
  confirm?: (input: CommandInput) => { question: string; expected: string }
  /** Shown in place of Commander's error, which quotes an argument that may be a secret. */
  usageError?: string
} & (Shown | Custom | { runOnServer: (work: ServerWork) => Promise<unknown> })

/** A command that does something else than one request. The number that it returns is its exit code. */
type Custom = { run: (work: Work) => Promise<unknown> }

/** How people see the response. Programs get its JSON. */
export type Shown =
  | {
      table: Columns
      rows?: (body: Json) => Json[]
      /** Whether only the first page of a list is read. */
      isOnePage?: true
      /** A sentence about what is not shown, for standard error. */
      note?: (body: Json) => string | undefined
    }
  | { fields: Columns }
  | {
      sentence: (body: Json, input: CommandInput) => string
      /** What programs get in place of a response without a body. */
      json?: (input: CommandInput) => Json
    }
