import type { Json } from '#base/json.ts'
import type { Terminal } from '../commands/terminal.ts'
import type { ApiRequest, HttpClient } from './http-client.ts'
import type { UserGit } from './user-git.ts'

/** The arguments and options of a command. */
export type CommandInput = {
  /** The value of an argument; the repository of the clone where it was left out. */
  argument: (name: string) => string
  option: (name: string) => string | undefined
  list: (name: string) => string[] | undefined
  flag: (name: string) => boolean | undefined
}

/** An option of a command: flags as Commander takes them, and what it is for. */
export type OptionRow = {
  flags: string
  description: string
  choices?: string[]
  /** An option that has a meaning only for a server, or only for the data directory. */
  only?: 'server' | 'local'
}

/** A cell of a table: the property that it shows, or how it is made of the row. */
export type Cell = string | ((row: Json) => string)

/** What a custom command works with. */
export type Work = {
  client: HttpClient
  input: CommandInput
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

/** A command for operations of the API. Tables of these define the client. */
export type ClientOperation = {
  /** The words of the command, such as `repos list`. */
  command: string
  /** The operations of the API that it uses, by their id in the OpenAPI document. */
  operations: string[]
  summary: string
  /** The names of its arguments. `repository` may be left out in a clone; `[name]` is optional. */
  arguments?: string[]
  options?: OptionRow[]
  /** A text after the help. */
  notes?: string
  /** For an action that cannot be undone: the question, and the answer that confirms it. */
  confirm?: (input: CommandInput) => { question: string; expected: string }
  /** Shown in place of Commander's error, which quotes an argument that may be a secret. */
  usageError?: string
} & (
  | { request: (input: CommandInput) => ApiRequest; show: Show }
  | { run: (work: Work) => Promise<void> | Promise<number> }
)

/** How people see the result. Programs get the JSON of the response. */
export type Show =
  | {
      kind: 'table'
      columns: Record<string, Cell>
      rows?: (body: Json) => Json[]
      isPaged?: true
      /** A sentence about what is not shown, for standard error. */
      note?: (body: Json) => string | undefined
    }
  | { kind: 'fields'; columns: Record<string, Cell> }
  | {
      kind: 'sentence'
      text: (body: Json, input: CommandInput) => string
      json?: (input: CommandInput) => Json
    }
