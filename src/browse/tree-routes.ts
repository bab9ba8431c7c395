import { Type } from 'typebox'
import { Problem } from '../base/problem.ts'
import type { TreeEntry } from '../git/objects/object-reader.ts'
import { named } from '../http/named-schemas.ts'
import { closed, route } from '../http/route.ts'
import { PathQuery, pathProperties, type RawPath, toApiPath, toRawPath } from './api-path.ts'
import { type BrowseParts, missingRepository, openToRead } from './browse-parts.ts'
import { keyOf } from './cached-responses.ts'
import { objectId } from './commit-schemas.ts'
import { findCommit, RevisionQuery, revisionProblems } from './revisions.ts'
import { treeMode } from './trees.ts'

/** The route of folders. */
export function treeRoutes(parts: BrowseParts) {
  const { pool, cached, commits, trees } = parts

  return [
    route('GET', '/repos/:name/tree', {
      operationId: 'getTree',
      tag: 'browse',
      summary: 'List a folder',
      permission: 'repo:read',
      find: openToRead(parts),
      isConditional: true,
      query: Type.Object({ ...RevisionQuery, ...PathQuery }, closed),
      reply: { 200: Tree },
      problems: [...missingRepository, ...revisionProblems, 'path_not_found', 'git_limit_exceeded'],
      handle: async ({ found, query, notModified, clientSignal }) => {
        const path = toRawPath(query)
        const objects = pool.of(found.path)
        const { id } = await findCommit(objects, found, query.rev)
        const key = keyOf(['tree', found.id, id, path])
        if (notModified(key)) return undefined
        return cached(key, clientSignal(), async () => {
          const commit = await commits(objects, id)
          const folder = await trees.find(objects, commit?.tree ?? '', path)
          if (folder.mode !== treeMode) throw notFolder(path)
          const entries = await trees.read(objects, folder.id)
          return {
            commit: id,
            ...toApiPath(path),
            id: folder.id,
            entries: entries.map((entry) => toEntry(entry, path)),
          }
        })
      },
    }),
  ]
}

function toEntry({ mode, name, id }: TreeEntry, folder: RawPath) {
  const path = folder === '' ? name : `${folder}/${name}`
  return { name: toApiPath(name).path, ...toApiPath(path), mode: mode.padStart(6, '0'), id }
}

function notFolder(path: RawPath): Problem {
  return new Problem('path_not_found', `"${toApiPath(path).path}" is not a folder.`)
}

const Tree = named(
  'Tree',
  Type.Object({
    commit: objectId('Id of the commit'),
    ...pathProperties,
    id: objectId('Id of the tree'),
    entries: Type.Array(
      Type.Object({
        name: Type.String({ description: 'Name in the folder' }),
        ...pathProperties,
        mode: Type.String({
          description:
            '`100644` file, `100755` executable file, `040000` folder, `120000` symbolic link, `160000` submodule',
        }),
        id: objectId('Id of the object; of a commit elsewhere for a submodule'),
      }),
    ),
  }),
)
