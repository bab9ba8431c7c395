import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { createEnclosure } from './enclosure.ts'
import { listingPair, type Request, type Target, wholeFetch } from './wire.ts'

type Reply = { type: string; body: Uint8Array }

/** Recorded responses of a server. */
export type Replies = { advertisement: Reply; listing: Reply; pack: Reply }

/**
 * A server that replays recorded responses: as fast as any server can be, and so the lower limit of the
 * measured times.
 */
export async function startStaticServer(replies: Replies) {
  await using starting = new AsyncDisposableStack()
  const { prefix, cpuMs } = starting.use(createEnclosure())
  const [execPath = process.execPath, ...execArgv] = [...prefix, process.execPath]
  const program = fileURLToPath(new URL('static-server.ts', import.meta.url))
  const child = fork(program, { execPath, execArgv, detached: true, serialization: 'advanced' })
  const ended = once(child, 'exit')
  starting.defer(async () => {
    if (child.connected) child.disconnect()
    await ended
  })
  child.send(replies)
  const [url] = await once(child, 'message')

  const running = starting.move()
  return { url: String(url), cpuMs, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

/** Records the responses of a server to a listing, and to a clone of a commit if one is named. */
export async function recordReplies(target: Target, commit?: string): Promise<Replies> {
  const [advertisement, listing] = await Promise.all(
    listingPair().map((request) => record(target, request)),
  )
  const [pack = empty] = commit
    ? await Promise.all(wholeFetch(commit).map((request) => record(target, request)))
    : []
  return { advertisement: advertisement ?? empty, listing: listing ?? empty, pack }
}

const empty: Reply = { type: 'text/plain', body: Buffer.alloc(0) }

async function record({ url, authorization }: Target, request: Request): Promise<Reply> {
  const { method, path, body } = request
  const answer = await fetch(url + path, {
    method,
    headers: {
      'git-protocol': 'version=2',
      ...(authorization && { authorization }),
      ...(body && { 'content-type': 'application/x-git-upload-pack-request' }),
    },
    ...(body && { body: new Uint8Array(body) }),
  })
  if (!answer.ok) throw new Error(`${method} ${url}${path} was answered ${answer.status}.`)
  return { type: answer.headers.get('content-type') ?? '', body: await answer.bytes() }
}
