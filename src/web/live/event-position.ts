import type { PageContext } from '../page.ts'

/**
 * The position in the event log from which the stream of a page starts. It is read before the content of the page, so that
 * the stream has all that changes after that. `latest` for those who may not read events.
 */
export async function eventPosition({ call }: Pick<PageContext, 'call'>): Promise<string> {
  const result = await call('listEvents', { query: { after: 'latest', limit: 1 } }).catch(
    () => undefined,
  )
  return /[?&]after=(\d+)/.exec(result?.headers.link ?? '')?.[1] ?? 'latest'
}
