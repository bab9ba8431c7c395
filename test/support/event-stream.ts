import type { Client } from './service.ts'

type Event = { id: string; name: string; data: string }

/** Follows a stream of server-sent events (HTML Living Standard, section 9.2.6). */
export async function followStream(
  client: Client,
  path: string,
  headers: Record<string, string> = {},
) {
  const gone = new AbortController()
  const response = await fetch(client.url + path, {
    headers: { authorization: `Bearer ${client.token}`, accept: 'text/event-stream', ...headers },
    signal: gone.signal,
  })
  if (!response.ok || !response.body) throw new Error(await response.text())
  const comments: string[] = []
  const events = readEvents(response.body, comments)
  return {
    /** The comments so far. The last one gives the reason when access ends. */
    comments,
    // While it is held: the body of an abandoned response is cancelled.
    response,
    /** The next event; undefined when the stream has ended. */
    next: async (): Promise<Event | undefined> => (await events.next()).value ?? undefined,
    async [Symbol.asyncDispose]() {
      gone.abort()
      await events.return(undefined).catch(() => {})
    },
  }
}

/** Follows the log of a run. */
export async function followLog(
  client: Client,
  path: string,
  headers: Record<string, string> = {},
) {
  const stream = await followStream(client, path, headers)
  let lastId: string | undefined
  let end: { conclusion: string } | undefined

  async function next(): Promise<string | undefined> {
    const value = await stream.next()
    if (!value) return undefined
    lastId = value.id
    // Each is of whole lines.
    if (value.name !== 'end') return `${value.data}\n`
    end = JSON.parse(value.data)
    return undefined
  }

  return {
    /** The text of the next event; empty after the last one. */
    next: async () => (await next()) ?? '',

    /** All the text that is still to come. */
    async rest(): Promise<string> {
      let text = ''
      for (let piece = await next(); piece !== undefined; piece = await next()) text += piece
      return text
    },

    /** What the last event says; undefined until it has come. */
    end: () => end,
    comments: stream.comments,
    lastId: () => lastId,

    [Symbol.asyncDispose]: () => stream[Symbol.asyncDispose](),
  }
}

async function* readEvents(
  body: ReadableStream<Uint8Array>,
  comments: string[],
): AsyncGenerator<Event, undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let text = ''
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true })
    for (let at = text.indexOf('\n\n'); at !== -1; at = text.indexOf('\n\n')) {
      const event = toEvent(text.slice(0, at))
      if (event) yield event
      else comments.push(text.slice(1, at).trim())
      text = text.slice(at + 2)
    }
  }
  return undefined
}

// A comment is no event.
function toEvent(block: string): Event | undefined {
  const lines = block.split('\n').filter((line) => !line.startsWith(':'))
  if (lines.length === 0) return undefined
  const valuesOf = (field: string) =>
    lines
      .filter((line) => line.startsWith(`${field}: `))
      .map((line) => line.slice(field.length + 2))
  const [id = ''] = valuesOf('id')
  const [name = 'message'] = valuesOf('event')
  return { id, name, data: valuesOf('data').join('\n') }
}
