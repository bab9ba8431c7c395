import { Problem, type ProblemCode, toProblem } from '#base/problem.ts'

/** Functions that another process can call. Arguments and results are copied (structured clone). */
export type Functions = Record<string, (...values: never[]) => Promise<unknown>>

/** One end of a connection between two processes, which transfers cloneable values. */
export type Wire = {
  send: (message: unknown) => void
  onMessage: (take: (message: unknown) => void) => void
}

type Message =
  | { kind: 'call'; id: number; name: string; values: never[] }
  | { kind: 'result'; id: number; value: unknown }
  | { kind: 'fault'; id: number; fault: Fault }

/** A Problem in cloneable form. */
type Fault = { code: ProblemCode; detail: string; retryAfterSeconds: number | undefined }

type Waiting = { resolve: (value: unknown) => void; reject: (error: unknown) => void }

type Options = {
  wire: Wire
  /** The functions that the other process can call. */
  local: Functions
  /** Called with errors of our functions that are not Problems. */
  onFault: (error: unknown) => void
}

/**
 * Lets two processes call each other's functions, any number concurrently. A Problem is rethrown to the caller; any other
 * error becomes an internal error without details.
 */
export function connectRpc<Remote extends Functions>({ wire, local, onFault }: Options) {
  const waiting = new Map<number, Waiting>()
  let lastId = 0
  let isClosed = false

  wire.onMessage((received) => {
    // The other process runs the same program.
    const message = received as Message
    if (isClosed) return
    if (message.kind === 'call') void answer(message)
    else settle(message)
  })

  async function answer({ id, name, values }: Extract<Message, { kind: 'call' }>): Promise<void> {
    try {
      const call = Object.hasOwn(local, name) ? local[name] : undefined
      if (!call) throw new Error(`There is no function ${name} to call.`)
      const value = await call(...values)
      if (!isClosed) wire.send({ kind: 'result', id, value } satisfies Message)
    } catch (error) {
      const { code, message: detail, retryAfterSeconds } = toProblem(error)
      if (!(error instanceof Problem)) onFault(error)
      const fault = { code, detail, retryAfterSeconds }
      if (!isClosed) wire.send({ kind: 'fault', id, fault } satisfies Message)
    }
  }

  function settle(message: Exclude<Message, { kind: 'call' }>): void {
    const caller = waiting.get(message.id)
    waiting.delete(message.id)
    if (message.kind === 'result') caller?.resolve(message.value)
    else caller?.reject(toThrown(message.fault))
  }

  function call(name: string, values: never[]): Promise<unknown> {
    if (isClosed) return Promise.reject(gone())
    lastId += 1
    const id = lastId
    return new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject })
      wire.send({ kind: 'call', id, name, values } satisfies Message)
    })
  }

  return {
    // Every property is a remote call; the type limits the names.
    remote: new Proxy({} as Remote, {
      get:
        (_, name) =>
        (...values: never[]) =>
          call(String(name), values),
    }),

    /** Fails pending calls, because the other process has exited. */
    close(): void {
      isClosed = true
      for (const { reject } of waiting.values()) reject(gone())
      waiting.clear()
    },
  }
}

function toThrown({ code, detail, retryAfterSeconds }: Fault): Problem {
  return new Problem(code, detail, retryAfterSeconds === undefined ? {} : { retryAfterSeconds })
}

function gone(): Error {
  return new Error('The other process has exited.')
}
