import type { PageContext } from '../page.ts'

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
