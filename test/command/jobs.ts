import { globSync, readFileSync } from 'node:fs'

/** What `npm test` runs, everything else, and the tests of modules. */
export const suites = ['quick', 'rest', 'unit'] as const
export type Suite = (typeof suites)[number]

/** How the process of a job is started. */
export type Environment = { tagFilter?: string; store: 'local' | 'shared' }

/** A file to run, in an environment. */
export type Job = { path: string; isAlone: boolean; environment: Environment }

/**
 * The tags that the first line of a file can have, `// Tags: alone, exhaustive`:
 *
 * - `alone`: it needs a process of its own, because it changes or measures its process.
 * - `exhaustive`: it is not in the quick suite, nor are single tests with this tag.
 * - `each-store`: it runs a second time, over a shared store and with SHA-256 repositories.
 */
const knownTags = ['alone', 'exhaustive', 'each-store'] as const
type Tag = (typeof knownTags)[number]

const hasExhaustiveTests = /\b(exhaustive|onEachDatabase)\b/

const everything: Environment = { store: 'local' }
const quickTests: Environment = { store: 'local', tagFilter: 'not exhaustive' }
const exhaustiveTests: Environment = { store: 'local', tagFilter: 'exhaustive' }
const sharedStore: Environment = { store: 'shared' }

/** The jobs of a suite, of files below the given paths if there are any. */
export function toJobs(root: string, suite: Suite, paths: readonly string[]): Job[] {
  const files = globSync(['src/**/*.test.ts', 'test/**/*.test.ts'], { cwd: root }).sort()
  const isWanted = (file: string) =>
    paths.length === 0 || paths.some((path) => file === path || file.startsWith(toFolder(path)))
  return files.filter(isWanted).flatMap((path) => {
    const text = readFileSync(`${root}/${path}`, 'utf8')
    const tags = readTags(path, text)
    return environmentsOf(suite, { path, text, tags }).map((environment) => {
      return { path, isAlone: tags.has('alone'), environment }
    })
  })
}

type TestFile = { path: string; text: string; tags: ReadonlySet<Tag> }

function environmentsOf(suite: Suite, { path, text, tags }: TestFile): Environment[] {
  const isExhaustive = tags.has('exhaustive')
  switch (suite) {
    case 'quick':
      return isExhaustive ? [] : [quickTests]
    case 'unit':
      return isExhaustive || !/^src\/|^test\/rules\//.test(path) ? [] : [quickTests]
    case 'rest': {
      const again = tags.has('each-store') ? [sharedStore] : []
      if (isExhaustive) return [everything, ...again]
      return hasExhaustiveTests.test(text) ? [exhaustiveTests, ...again] : again
    }
  }
}

function readTags(path: string, text: string): ReadonlySet<Tag> {
  const [, list] = /^\/\/ Tags: (.+)\n/.exec(text) ?? []
  const names = list?.split(', ') ?? []
  return new Set(
    names.map((name) => {
      const tag = knownTags.find((known) => known === name)
      if (tag === undefined) throw new Error(`${path} has an unknown tag, ${name}.`)
      return tag
    }),
  )
}

function toFolder(path: string): string {
  return `${path.replace(/^\.\//, '').replace(/\/+$/, '')}/`
}
