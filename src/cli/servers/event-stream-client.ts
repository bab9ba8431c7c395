import { CommandError, clientExitCodes } from '../terminal/command-errors.ts'
import type { ApiRequest, HttpClient } from './http-client.ts'

export type StreamEvent = { id: string; name: string; data: string }

const blockMaxLength = 16 * 1024 * 1024
const retryMs = 1000
const attemptsMax = 30

/**
 * Follows a stream of server-sent events (HTML Living Standard, section 9.2). When the connection breaks, it is opened
 * again after the last event; the generator ends when `isLast` says so.
 */
export async function* followEvents(
  client: HttpClient,
  request: ApiRequest,
  isLast: (event: StreamEvent) => boolean,
): AsyncGenerator<StreamEvent, void> {
  let lastId = ''
  for (let failures = 0; ; ) {
    try {
      const headers = lastId === '' ? {} : { 'last-event-id': lastId }
      const body = await client.stream({ ...request, headers }, 'text/event-stream')
      for await (const event of readStream(body)) {
        failures = 0
        if (event.id !== '') lastId = event.id
        yield event
        if (isLast(event)) return
      }
    } catch (error) {
      const isTemporary =
        !(error instanceof CommandError) || error.exitCode === clientExitCodes.unreachable
      // The first connection has to succeed: the address may be wrong.
      if (!isTemporary || lastId === '' || failures >= attemptsMax) throw error
    }
    failures += 1
    if (failures > attemptsMax) {
      throw new CommandError('unreachable', `${client.url} ends the stream again and again.`)
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs))
  }
}

async function* readStream(body: AsyncIterable<Buffer>): AsyncGenerator<StreamEvent, void> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true })
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const event = toEvent(text.slice(0, end))
      text = text.slice(end + 2)
      if (event) yield event
    }
    if (text.length > blockMaxLength)
      throw new CommandError('failure', 'The server sent an event that is too large.')
  }
}

// Lines that begin with a colon are comments.
function toEvent(block: string): StreamEvent | undefined {
  const lines = block.split('\n').filter((line) => line !== '' && !line.startsWith(':'))
  if (lines.length === 0) return undefined
  const valuesOf = (field: string) =>
    lines
      .filter((line) => line.startsWith(`${field}:`))
      .map((line) => line.slice(field.length + 1).replace(/^ /, ''))
  const [id = ''] = valuesOf('id')
  const [name = 'message'] = valuesOf('event')
  return { id, name, data: valuesOf('data').join('\n') }
}
