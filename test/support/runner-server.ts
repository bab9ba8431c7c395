import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import type { TSchema } from 'typebox'
import {
  ClaimBody,
  ReleaseBody,
  ReportBody,
  type SourceHeader,
  sourceContentType,
} from '#actions/runner-api/runner-api.ts'
import { reportMaxBytes } from '#actions/runner-api/transfer-limits.ts'
import type { Plan, RunEntry } from '#actions/workflow-engine/plan.ts'
import { newId } from '#base/ids.ts'
import { newTokenString } from '#base/token-string.ts'
import { checkBody } from '#http/validation.ts'
import { freePort } from './free-port.ts'

/** A run that the server hands out, and what it heard of it. */
export type ServedRun = {
  plan: Plan
  state: 'queued' | 'running' | 'completed'
  /** Of the current or the last attempt. */
  entries: RunEntry[]
  /** How often it was claimed. */
  claims: number
  /** How it was handed back. */
  releases: ReleaseBody[]
  cancel: string | null
  kill: boolean
  token: string
  deadline: number
}

/** What becomes of a request: `cut` drops the connection before it is looked at, `mute` drops the answer, `silence` is none. */
export type Mishap =
  | 'cut'
  | 'mute'
  | 'silence'
  | { status: number; headers?: Record<string, string> }

type Options = {
  leaseSeconds?: number
  /** What goes wrong with a request. */
  mishap?: (request: { method: string; path: string }) => Mishap | undefined
  port?: number
}

const pauseMs = 20

/** A server that speaks the runner API strictly, and nothing else, for tests of the runner by itself. */
export async function startRunnerServer({ leaseSeconds = 60, mishap, ...rest }: Options = {}) {
  const { port = await freePort() } = rest
  const token = newTokenString()
  const runs: ServedRun[] = []
  const claims: unknown[] = []
  const faults: unknown[] = []
  const sources = new Map<string, Buffer>()
  const server = createServer((request, response) => {
    answer(request, response).catch((error) => {
      faults.push(error)
      sendProblem(response, 400, String(error))
    })
  })
  let accident = mishap
  let broken: Buffer | undefined

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '' } = request
    const { pathname: path, searchParams } = new URL(url, 'http://localhost')
    const wrong = accident?.({ method, path })
    if (wrong === 'cut') return void request.socket.destroy()
    if (wrong === 'silence') return
    if (typeof wrong === 'object') {
      response.writeHead(wrong.status, wrong.headers).end()
      return
    }
    const isMute = wrong === 'mute'
    const send = (status: number, body?: unknown) => {
      if (isMute) return void request.socket.destroy()
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(body === undefined ? undefined : JSON.stringify(body))
    }
    if (method === 'POST' && path === '/runner/claim') return claim(request, response, send)
    const [, id, verb] = /^\/runner\/runs\/([^/]+)\/(\w+)$/.exec(path) ?? []
    const run = runs.find(({ plan }) => plan.runId === id)
    if (!run) return sendProblem(response, 404, 'There is no such run.')
    if (request.headers.authorization !== `Bearer ${run.token}`) {
      return sendProblem(response, 401, 'The run has another token, or none.')
    }
    run.deadline = Date.now() + leaseSeconds * 1000
    if (method === 'GET' && verb === 'source') return sendSource(run, response)
    if (method === 'GET' && verb === 'orders') {
      return sendOrders(run, Number(searchParams.get('wait')), response, send)
    }
    if (method === 'POST' && verb === 'report') {
      const body = await bodyOf<typeof ReportBody>(request, ReportBody)
      return send(200, take(run, body as { first: number; entries: RunEntry[] }))
    }
    if (method === 'POST' && verb === 'release') {
      const body = (await bodyOf(request, ReleaseBody)) as ReleaseBody
      run.releases.push(body)
      requeue(run)
      return send(204)
    }
    sendProblem(response, 404, 'There is nothing at this address.')
  }

  async function claim(
    request: IncomingMessage,
    response: ServerResponse,
    send: (status: number, body?: unknown) => void,
  ): Promise<void> {
    if (request.headers.authorization !== `Bearer ${token}`) {
      return sendProblem(response, 401, 'The token is not valid.')
    }
    const body = (await bodyOf(request, ClaimBody)) as ClaimBody
    claims.push(body)
    const until = Date.now() + body.waitSeconds * 1000
    while (Date.now() < until && !response.destroyed && server.listening) {
      for (const late of runs) {
        if (late.state === 'running' && late.deadline < Date.now()) requeue(late)
      }
      const run = runs.find(({ state }) => state === 'queued')
      if (run) {
        Object.assign(run, {
          state: 'running',
          entries: [],
          token: randomBytes(16).toString('hex'),
        })
        run.claims += 1
        run.deadline = Date.now() + leaseSeconds * 1000
        return send(200, { claimToken: run.token, leaseSeconds, plan: run.plan })
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
    send(204)
  }

  function take(run: ServedRun, { first, entries }: { first: number; entries: RunEntry[] }) {
    if (run.state !== 'running') throw new Error('A report for a run that is not running.')
    if (first > run.entries.length) throw new Error('Entries were left out.')
    run.entries.push(...entries.slice(run.entries.length - first))
    if (run.entries.some(({ kind }) => kind === 'run-ended')) run.state = 'completed'
    if (run.state === 'completed') run.token = ''
    return { next: run.entries.length, cancel: run.cancel }
  }

  async function sendOrders(
    run: ServedRun,
    waitSeconds: number,
    response: ServerResponse,
    send: (status: number, body?: unknown) => void,
  ): Promise<void> {
    const held = run.token
    const until = Date.now() + waitSeconds * 1000
    const isOver = () => Date.now() >= until || response.destroyed || !server.listening
    while (run.cancel === null && run.token === held && !isOver()) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
    if (run.token !== held) return sendProblem(response, 409, 'The run has been taken away.')
    send(200, { cancel: run.cancel, kill: run.kill })
  }

  function sendSource({ plan }: ServedRun, response: ServerResponse): void {
    const pack = broken ?? sources.get(plan.commit)
    if (!pack) return void sendProblem(response, 422, 'The commit is gone.')
    const { commit, ref } = plan
    const header: SourceHeader = { commit, ref, refs: {}, shallow: [commit] }
    response.writeHead(200, { 'content-type': sourceContentType })
    response.end(Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), pack]))
  }

  async function listen(): Promise<void> {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  await listen()

  return {
    url: `http://127.0.0.1:${port}`,
    token,
    /** The bodies of all claims. */
    claims,
    /** What was wrong with requests: empty as long as the runner keeps to the protocol. */
    faults,

    /** Puts a run into the queue; `pack` holds its commit. */
    queue(plan: Plan, pack?: { commit: string; bytes: Buffer }): ServedRun {
      // The plan may be of another commit than the one that was packed.
      if (pack) sources.set(pack.commit, pack.bytes)
      const run: ServedRun = {
        plan: { ...plan, runId: newId() },
        state: 'queued',
        entries: [],
        claims: 0,
        releases: [],
        cancel: null,
        kill: false,
        token: '',
        deadline: 0,
      }
      runs.push(run)
      return run
    },

    /** Serves something else in place of every pack. */
    breakSources(bytes: Buffer): void {
      broken = bytes
    },

    /** Has requests go wrong from now on; undefined for none. */
    setMishap(next: Options['mishap']): void {
      accident = next
    },

    /** Closes the port and all connections, as a server does that ends. */
    async vanish(): Promise<void> {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },

    /** Is there again, at the same port. */
    comeBack: listen,

    async [Symbol.asyncDispose]() {
      if (!server.listening) return
      server.close()
      server.closeAllConnections()
    },
  }
}

function requeue(run: ServedRun): void {
  Object.assign(run, { state: 'queued', token: '' })
}

async function bodyOf<S extends TSchema>(request: IncomingMessage, schema: S): Promise<unknown> {
  if (Number(request.headers['content-length']) > reportMaxBytes) throw new Error('A long body.')
  return checkBody(schema, await json(request))
}

function sendProblem(response: ServerResponse, status: number, detail: string): void {
  if (response.headersSent) return void response.destroy()
  response.writeHead(status, { 'content-type': 'application/problem+json' })
  response.end(JSON.stringify({ status, detail }))
}
