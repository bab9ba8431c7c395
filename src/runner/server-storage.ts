import type { Readable } from 'node:stream'
import { cacheKeyHeader, runFileContentType } from '../runner-api/run-file-transfers.ts'
import type { RunStorage, SavedArtifact } from '../workflow-engine/run-storage.ts'
import type { RunConnection } from './run-connection.ts'
import { limitStall, UnexpectedResponseError } from './server-client.ts'

const responseTimeoutMs = 60_000
const stallTimeoutMs = 60_000
// The time limit of the step ends a transfer earlier.
const uploadTimeoutMs = 6 * 60 * 60_000

type Options = Pick<RunConnection, 'open' | 'request' | 'upload'>

/** Keeps the caches and artifacts of a run on the server. */
export function createServerStorage(connection: Options): RunStorage {
  async function open(path: string, signal: AbortSignal) {
    const request = { method: 'GET', path, timeoutMs: responseTimeoutMs, signal } as const
    const response = await connection.open(request)
    limitStall(response, stallTimeoutMs)
    return response
  }

  const upload = (path: string, content: Readable, signal: AbortSignal) =>
    connection.upload({
      method: 'PUT',
      path,
      content,
      contentType: runFileContentType,
      timeoutMs: uploadTimeoutMs,
      signal,
    })

  return {
    async findCache({ keys, version, lookupOnly, signal }) {
      const query = new URLSearchParams({ version, ...(lookupOnly && { lookup: 'true' }) })
      for (const key of keys) query.append('keys', key)
      const response = await open(`/caches?${query}`, signal)
      const key = response.headers[cacheKeyHeader]
      const isFound = typeof key === 'string' && key !== ''
      if (isFound && !lookupOnly && response.statusCode === 200)
        return { key: decodeURIComponent(key), content: response }
      response.resume()
      return isFound ? { key: decodeURIComponent(key), content: undefined } : undefined
    },

    async saveCache({ key, version, content, signal }) {
      const query = new URLSearchParams({ key, version })
      const { status } = await upload(`/caches?${query}`, content, signal)
      return status === 200 ? 'exists' : 'saved'
    },

    async listArtifacts(signal) {
      const response = await connection.request({
        method: 'GET',
        path: '/artifacts',
        timeoutMs: responseTimeoutMs,
        signal,
      })
      if (!Array.isArray(response))
        throw new UnexpectedResponseError('There is no list of artifacts.')
      return response.map((one) => ({ name: String(one?.name), size: Number(one?.size) }))
    },

    openArtifact: (name, signal) =>
      open(`/artifacts/content?${new URLSearchParams({ name })}`, signal),

    async saveArtifact({ name, retentionDays, overwrite, content, signal }) {
      const query = new URLSearchParams({ name, overwrite: String(overwrite) })
      if (retentionDays !== undefined) query.set('retentionDays', String(retentionDays))
      return toSaved((await upload(`/artifacts?${query}`, content, signal)).value)
    },
  }
}

function toSaved(response: unknown): SavedArtifact {
  const { size, sha256 } = Object(response)
  if (typeof size !== 'number' || typeof sha256 !== 'string')
    throw new UnexpectedResponseError('The response to an artifact has another format.')
  return { size, sha256 }
}
