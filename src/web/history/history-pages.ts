import { Problem } from '#base/problem.ts'
import { parseTarget } from '../links.ts'
import { type PageRoute, page, toRawResponse } from '../page.ts'
import { blamePages } from './blame-pages.ts'
import { branchPages } from './branch-pages.ts'
import { codeSearchPages } from './code-search-pages.ts'
import { commitPages } from './commit-pages.ts'
import { comparePages } from './compare-pages.ts'
import { logPages } from './log-pages.ts'
import { tagPages } from './tag-pages.ts'

const types: Record<string, string> = {
  'tar.gz': 'application/gzip',
  zip: 'application/zip',
}

const archivePages = [
  page('/r/:name/archive/:target*', ['getArchive'], {
    weight: 'heavy',
    audience: 'all',
    async show({ params, call, ifNoneMatch }) {
      const [, given = '', format = ''] = /^(.+)\.(tar\.gz|zip)$/.exec(params.target ?? '') ?? []
      const target = parseTarget(given)
      const type = types[format]
      if (target?.path.path !== '' || type === undefined)
        throw new Problem(
          'route_not_found',
          'Archives are at <revision>.tar.gz and <revision>.zip.',
        )
      const result = await call('getArchive', {
        query: { rev: target.rev, format },
        ...(ifNoneMatch !== undefined && { ifNoneMatch }),
      })
      return toRawResponse(type, result)
    },
  }),
]

/** The pages of history, changes and refs. */
export const historyPages: readonly PageRoute[] = [
  ...logPages,
  ...commitPages,
  ...comparePages,
  ...blamePages,
  ...branchPages,
  ...tagPages,
  ...codeSearchPages,
  ...archivePages,
]
