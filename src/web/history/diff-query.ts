import type { SharedContext } from '../page.ts'
import type { ShownFile } from './diff-context.ts'

/** The file that a page of a diff shows alone, as the API takes it. */
export function fileOf(
  query: URLSearchParams,
): { path: string } | { pathBase64: string } | undefined {
  const path = query.get('file') ?? ''
  const pathBase64 = query.get('file64') ?? ''
  if (pathBase64 !== '') return { pathBase64 }
  return path === '' ? undefined : { path }
}

/** Whether all lines of that file are wanted, also those that did not change. */
export function isFileLonger(query: URLSearchParams): boolean {
  return query.get('lines') === 'all' && fileOf(query) !== undefined
}

const kept = ['split', 'file', 'file64', 'lines']

/** Creates the addresses of a page with other parameters; some are the same in all of them. */
export function pageAddress(
  path: string,
  query: URLSearchParams,
  fixed: Record<string, string> = {},
) {
  return (changes: Record<string, string | undefined>): string => {
    const wanted = new URLSearchParams(fixed)
    for (const name of kept) {
      const value = name in changes ? changes[name] : query.get(name)
      if (value !== undefined && value !== null) wanted.set(name, value)
    }
    const search = wanted.toString().replace(/=(?=&|$)/g, '')
    return search === '' ? path : `${path}?${search}`
  }
}

/** The lines of a file, if the API has it as text. */
export async function linesOfFile(
  { tryRead }: SharedContext,
  rev: string,
  file: ShownFile | undefined,
): Promise<string[] | undefined> {
  if (file === undefined || file.newId === null) return undefined
  const { path, pathBase64 } = file
  const query = { rev, ...(pathBase64 === undefined ? { path } : { pathBase64 }) }
  const found = await tryRead('getFile', { query })
  if (found?.content === null || found?.encoding !== 'utf-8') return undefined
  const lines = found.content.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines
}
