import { type Static, Type } from 'typebox'
import { closed } from '#base/schema-options.ts'
import { route, SerializedJson } from '#http/route.ts'
import { invalid, ofQuery } from '#http/validation.ts'
import { openOfRoute } from '#repositories/open-repository.ts'
import { FilePathQuery, toRawFilePath } from '../api-path.ts'
import { type BrowseParts, revisionProblems, taskProblems } from '../browse-parts.ts'
import { keyOf, toSerializedJson } from '../cached-responses.ts'
import { findCommit, RevisionQuery } from '../revisions.ts'
import { mustRead } from '../walk-by-date.ts'
import { Blame, createBlame, maxFileBytes, maxLines } from './blame.ts'

const line = (description: string) =>
  Type.Optional(Type.Integer({ description, minimum: 1, maximum: maxFileBytes }))

// Blame of fewer commits takes git about as long as reading a file.
const keptFromCommits = 20
/** Limits of the files with kept blame. */
export const blameLimits = { fileMaxBytes: 8 * 1024 * 1024, maxFilesPerRepository: 200 }
/** Version of these files; raised when the response changes. */
const version = 1

const BlameQuery = Type.Object(
  {
    ...RevisionQuery,
    ...FilePathQuery,
    start: line('the first line, 1 or more'),
    end: line('the last line, 1 or more'),
  },
  closed,
)

/** The route that finds which commit each line of a file is from. */
export function blameRoutes(parts: BrowseParts) {
  const { pool, cached, commits, revisions, keptBlame, log } = parts
  const blame = createBlame(parts)

  /** Undefined, too, if the file cannot be read: then git computes it again. */
  async function load(repositoryId: string, key: string): Promise<SerializedJson | undefined> {
    const bytes = await keptBlame
      .load(repositoryId, versioned(key))
      .catch((error) => void log.warn({ err: error, repositoryId }, 'kept blame is unreadable'))
    return bytes && new SerializedJson(bytes)
  }

  /** A response that cannot be kept, as on a full disk, is sent all the same. */
  async function save(repositoryId: string, key: string, { bytes }: SerializedJson): Promise<void> {
    await keptBlame
      .save(repositoryId, versioned(key), bytes)
      .catch((error) => log.warn({ err: error, repositoryId }, 'blame cannot be kept'))
  }

  return [
    route('GET', '/repos/:name/blame', {
      operationId: 'getBlame',
      tag: 'browse',
      summary: 'Find the commit of each line of a file',
      description:
        `Returns the lines from \`start\` to \`end\`, at most ${maxLines.toLocaleString('en')} at a time: ` +
        'unless they were the last ones, `next` is the line to go on with.',
      permission: 'repo:read',
      find: openOfRoute(parts.repositories),
      isConditional: true,
      query: BlameQuery,
      reply: { 200: Blame },
      problems: [...revisionProblems, 'path_not_found', 'file_binary', ...taskProblems],
      handle: async ({ principal, found, query, notModified, clientSignal }) => {
        const { start = 1, end } = checkRange(query)
        const path = toRawFilePath(query)
        const objects = pool.of(found.path)
        const { id } = await findCommit(revisions, found, query.rev)
        const key = keyOf(['blame', found.id, id, path, start, end ?? 0])
        if (notModified(key)) return undefined
        return cached(key, clientSignal(), async (signal) => {
          const kept = await load(found.id, key)
          if (kept) return kept
          const { commit } = await mustRead(objects, commits, id)
          const requester = { principal, repository: found, signal }
          const made = await blame(requester, {
            commit: { id, tree: commit.tree },
            path,
            start,
            end,
          })
          if (made.commits.length < keptFromCommits) return made
          const response = toSerializedJson(made)
          await save(found.id, key, response)
          return response
        })
      },
    }),
  ]
}

const versioned = (key: string) => `${version} ${key}`

function checkRange(query: Static<typeof BlameQuery>): { start?: number; end?: number } {
  const { start = 1, end } = query
  if (end === undefined || start <= end) return query
  throw invalid([ofQuery('start', `is ${start}; it must not be after \`end\`, which is ${end}.`)])
}
