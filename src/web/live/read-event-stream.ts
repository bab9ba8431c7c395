import type { PageContext } from '../page.ts'

/** An event of a stream; its data is not parsed. */
type StreamedEvent = { id: string; event: string; data: string }

/**
 * Reads server-sent events as the API writes them: HTML Living Standard, section 9.2. Those without data have an id alone,
 * and comments are none.
 */
export async function* readEventStream(
  chunks: AsyncIterable<unknown>,
): AsyncGenerator<StreamedEvent> {
  let text = ''
  for await (const chunk of chunks) {
    text += String(chunk)
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const event = { id: '', event: '', data: '' }
      const data: string[] = []
      for (const line of text.slice(0, end).split('\n')) {
        if (line.startsWith('id: ')) event.id = line.slice(4)
        else if (line.startsWith('event: ')) event.event = line.slice(7)
        else if (line.startsWith('data: ')) data.push(line.slice(6))
      }
      text = text.slice(end + 2)
      yield { ...event, data: data.join('\n') }
    }
  }
}

/** Formats an event for the script of the pages. Browsers report only those that have data. */
export function toPageEvent(event: string, id: string, data: unknown): string {
  return `event: ${event}\n${id === '' ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`
}

/** A comment, so that a connection without events is not closed by a proxy. */
export const keepAlive = ': nothing new\n\n'

/**
 * The position in the event log from which the stream of a page starts. It is read before the content of the page, so that
 * the stream has all that changes after that. `latest` for those who may not see the repository, or no events.
 */
export async function eventPosition({
  call,
  tryRead,
  params,
}: Pick<PageContext, 'call' | 'tryRead' | 'params'>): Promise<string> {
  // Nothing is done for a repository that is invisible, as for one that does not exist.
  if (params.name !== undefined && !(await tryRead('getRepository'))) return 'latest'
  const result = await call('listEvents', { query: { after: 'latest', limit: 1 } }).catch(
    () => undefined,
  )
  return /[?&]after=(\d+)/.exec(result?.headers.link ?? '')?.[1] ?? 'latest'
}
