import { Readable } from 'node:stream'
import { Problem } from '../../base/problem.ts'
import { parseTarget } from '../links.ts'
import { page, RawResponse } from '../page.ts'

const types: Record<string, string> = {
  'tar.gz': 'application/gzip',
  zip: 'application/zip',
}

export const archivePages = [
  page('/r/:name/archive/:target*', ['getArchive'], {
    weight: 'heavy',
    audience: 'all',
    async show({ params, call }) {
      const [, given = '', format = ''] = /^(.+)\.(tar\.gz|zip)$/.exec(params.target ?? '') ?? []
      const target = parseTarget(given)
      const type = types[format]
      if (target?.path.path !== '' || type === undefined)
        throw new Problem(
          'route_not_found',
          'Archives are at <revision>.tar.gz and <revision>.zip.',
        )
      const { value, headers } = await call('getArchive', { query: { rev: target.rev, format } })
      if (!(value instanceof Readable)) throw new Error('an archive is a stream')
      const disposition = headers['content-disposition']
      return new RawResponse(type, value, disposition ? { 'content-disposition': disposition } : {})
    },
  }),
]
