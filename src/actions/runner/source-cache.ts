import { join } from 'node:path'
import type { SourceRequest } from '../workflow-engine/run-state.ts'
import type { SourcePack } from './source-pack.ts'

/** The commits that the jobs of a run share, each in a file of a folder that is removed after the run. */
export type SourceCache = {
  get: (request: SourceRequest) => Promise<SourcePack>
  /** Waits until nothing is fetched any more. */
  settled: () => Promise<void>
}

/** Creates a cache; `fetch` writes what was not requested before to a file. */
export function createSourceCache(
  folder: string,
  fetch: (request: SourceRequest, path: string) => Promise<SourcePack>,
): SourceCache {
  const sources = new Map<string, Promise<SourcePack>>()
  return {
    get(request) {
      const key = JSON.stringify([request.ref ?? null, request.depth, request.tags])
      const known = sources.get(key)
      if (known !== undefined) return known
      const source = fetch(request, join(folder, `source-${sources.size}`))
      sources.set(key, source)
      // Jobs that check out report a failure; there may be none.
      source.catch(() => {})
      return source
    },

    async settled() {
      await Promise.allSettled(sources.values())
    },
  }
}
