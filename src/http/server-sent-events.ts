/** Server-sent events: HTML Living Standard, section 9.2. */
export const eventStreamType = 'text/event-stream; charset=utf-8'

type ServerSentEvent = {
  /** The id from which a client resumes after this event. */
  id: number
  event?: string
  /** Without data, the client only remembers the id. */
  data?: string
}

/** Formats an event. */
export function toServerSentEvent({ id, event, data }: ServerSentEvent): string {
  const name = event === undefined ? '' : `event: ${event}\n`
  return `${name}id: ${id}\n${data === undefined ? '' : toDataLines(data)}\n`
}

/** Whether a client accepts an event stream. */
export function wantsEventStream(follow: boolean | undefined, accept: string | undefined): boolean {
  return follow ?? accept?.includes('text/event-stream') ?? false
}

function toDataLines(data: string): string {
  // A carriage return would also end the line.
  const lines = data.replace(/\r\n?/g, '\n').replace(/\n$/, '').split('\n')
  return lines.map((line) => `data: ${line}\n`).join('')
}
