import { type Static, Type } from 'typebox'
import { field } from '#base/schema-options.ts'
import { gitCommands, matchesPerFile } from '#git/process/commands.ts'
import { toWord } from '#git/process/preforked-process.ts'
import { named } from '#http/named-schemas.ts'
import { pathProperties, type RawPath, toApiPath } from '../api-path.ts'
import type { BrowseParts } from '../browse-parts.ts'
import { isMemoryLimit, isTimeLimit, type Requester } from '../git-tasks.ts'
import { createLineSplitter } from '../line-splitter.ts'
import { createSearchParser, type SearchMatch } from './search-output.ts'

const mib = 1024 * 1024
const memoryMaxBytes = 512 * mib
const outputMaxBytes = 256 * mib
/** Files above this size are left out when git runs out of memory. */
const fileMaxBytes = 16 * mib
const maxLeftOut = 100
const pathMaxBytes = 4096
const pathsMaxBytes = 4 * mib

type SearchRequest = {
  commit: string
  path: RawPath
  text: string
  ignoreCase: boolean
  limit: number
}

type SearchLimit = 'matches' | 'matches_per_file' | 'bytes' | 'file_size' | 'time'

/** Searches the files of a commit. A result that the time limit cut depends on more than the request. */
export function createSearch({ tasks }: Pick<BrowseParts, 'tasks'>) {
  return async (
    requester: Requester,
    request: SearchRequest,
  ): Promise<{ result: Static<typeof SearchResult>; isProvisional: boolean }> => {
    const reached = new Set<SearchLimit>()
    let matches: SearchMatch[] = []
    let leftOut: RawPath[] = []

    async function run(): Promise<void> {
      const collected = collect(request, reached)
      matches = collected.matches
      await tasks.run(requester, {
        command: commandOf(requester.repository.path, request, leftOut),
        memoryMaxBytes,
        // No line matches.
        accepts: [1],
        async read(output) {
          let bytes = 0
          for await (const chunk of output) {
            collected.parse(chunk)
            bytes += chunk.length
            if (bytes > outputMaxBytes) reached.add('bytes')
            if (bytes > outputMaxBytes || reached.has('matches')) return
          }
        },
      })
    }

    try {
      await run().catch(async (error) => {
        if (!isMemoryLimit(error)) throw error
        // Git reads each file as a whole.
        leftOut = await findLargeFiles(requester, request, error)
        reached.clear()
        reached.add('file_size')
        await run()
      })
    } catch (error) {
      if (!isTimeLimit(error)) throw error
      reached.add('time')
    }
    return {
      isProvisional: reached.has('time'),
      result: {
        commit: request.commit,
        isComplete: reached.size === 0,
        limits: [...reached],
        ...(leftOut.length > 0 && { leftOut: leftOut.map(toApiPath) }),
        matches: matches.map(toMatch),
      },
    }
  }

  async function findLargeFiles(
    requester: Requester,
    { commit, path }: SearchRequest,
    error: unknown,
  ): Promise<RawPath[]> {
    const found: RawPath[] = []
    await tasks.run(requester, {
      command: gitCommands.listSizes(requester.repository.path, commit, toWord(path) || '.'),
      async read(output) {
        const split = createLineSplitter(pathsMaxBytes, 0)
        for await (const chunk of output) {
          for (const entry of split(chunk)) {
            const [, size, file = ''] = /^\d+ blob [0-9a-f]+ +(\d+)\t(.*)$/s.exec(entry) ?? []
            if (Number(size) > fileMaxBytes) found.push(file)
          }
          if (found.length > maxLeftOut) return
        }
      },
    })
    const isNameable = found.every((file) => file.length <= pathMaxBytes)
    if (found.length > 0 && found.length <= maxLeftOut && isNameable) return found
    throw error
  }
}

function commandOf(
  directory: string,
  { commit, path, text, ignoreCase }: SearchRequest,
  leftOut: readonly RawPath[],
): string[] {
  // gitglossary, "pathspec".
  const paths = path === '' ? [] : [`:(literal)${toWord(path)}`]
  const excluded = leftOut.map((file) => `:(exclude,literal)${toWord(file)}`)
  const command = ignoreCase ? gitCommands.searchIgnoringCase : gitCommands.search
  return command(directory, text, commit, ...paths, ...excluded)
}

/** Collects matches within the limits of all and of each file. */
function collect({ commit, text, limit }: SearchRequest, reached: Set<SearchLimit>) {
  const matches: SearchMatch[] = []
  let path = ''
  let inFile = 0
  const parse = createSearchParser({
    prefixBytes: commit.length + 1,
    matchBytes: Buffer.byteLength(text),
    onMatch(match) {
      if (match.path !== path) inFile = 0
      path = match.path
      inFile += 1
      if (reached.has('matches')) return
      if (inFile > matchesPerFile) reached.add('matches_per_file')
      else if (matches.length === limit) reached.add('matches')
      else matches.push(match)
    },
  })
  return { matches, parse }
}

function toMatch({ path, isCut, ...match }: SearchMatch) {
  return { ...toApiPath(path), ...match, ...(isCut && { isCut }) }
}

const Match = Type.Object({
  ...pathProperties,
  line: field.integer('Number of the line, from 1'),
  column: field.integer('Where the text is first in the line, in bytes, from 1'),
  text: field.text('The line, or the part of a long one around the match'),
  isCut: Type.Optional(field.boolean('True if `text` is not the whole line')),
  matchStart: field.integer('Where the match starts in `text`, in UTF-16 code units, from 0'),
  matchLength: field.integer('Length of the match, in UTF-16 code units'),
})

export const SearchResult = named(
  'SearchResult',
  Type.Object({
    commit: field.text('Id of the commit'),
    isComplete: field.boolean('Whether all matching lines are here'),
    limits: Type.Array(
      Type.Unsafe<SearchLimit>({
        type: 'string',
        enum: ['matches', 'matches_per_file', 'bytes', 'file_size', 'time'],
      }),
      { description: 'The limits that ended the search, or left something out' },
    ),
    leftOut: Type.Optional(
      Type.Array(Type.Object(pathProperties), {
        description: 'Files that are too large to be searched',
      }),
    ),
    matches: Type.Array(Match, { description: 'Matching lines, by path and line' }),
  }),
)
