/** Server-sent events: HTML Living Standard, section 9.2. */
export const eventStreamType = 'text/event-stream; charset=utf-8'

type ServerSentEvent = {
  /** Where a client goes on from, once it has this. */
  id: number
  event?: string
  /** Without any, the client takes the id alone, and hears nothing. */
  data?: string
}

/** One event as it is sent. */
export function toServerSentEvent({ id, event, data }: ServerSentEvent): string {
  const name = event === undefined ? '' : `event: ${event}\n`
  return `${name}id: ${id}\n${data === undefined ? '' : toDataLines(data)}\n`
}

/** Whether a client asks for a stream of events instead of the usual answer. */
export function wantsEventStream(follow: boolean | undefined, accept: string | undefined): boolean {
  return follow ?? accept?.includes('text/event-stream') ?? false
}

function toDataLines(data: string): string {
  // A carriage return would end a line of the event, as a line feed does.
  const lines = data.replace(/\r\n?/g, '\n').replace(/\n$/, '').split('\n')
  return lines.map((line) => `data: ${line}\n`).join('')
}
