import type { Readable } from 'node:stream'
import { cacheKeyHeader, runFileContentType } from '../runner-api/transfer-limits.ts'
import type { ArchiveContent, RunStorage, SavedArtifact } from '../workflow-engine/run-storage.ts'
import type { RunConnection } from './run-connection.ts'
import { UnexpectedResponseError } from './server-client.ts'

const responseTimeoutMs = 60_000
// The time limit of the step ends a transfer earlier.
const uploadTimeoutMs = 6 * 60 * 60_000

type Options = Pick<RunConnection, 'open' | 'receive' | 'request' | 'upload'>

/** Keeps the caches and artifacts of a run on the server. */
export function createServerStorage(connection: Options): RunStorage {
  const get = (path: string, signal: AbortSignal) =>
    ({ method: 'GET', path, timeoutMs: responseTimeoutMs, signal }) as const

  /** The content at a path, which is requested when it is sent. */
  const contentAt =
    (path: string, signal: AbortSignal): ArchiveContent =>
    (write) =>
      connection.receive(get(path, signal), write)

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
      const query = new URLSearchParams({ version, lookup: 'true' })
      for (const key of keys) query.append('keys', key)
      const response = await connection.open(get(`/caches?${query}`, signal))
      response.resume()
      const encoded = response.headers[cacheKeyHeader]
      if (typeof encoded !== 'string' || encoded === '') return undefined
      const key = decodeURIComponent(encoded)
      const content = contentAt(`/caches?${new URLSearchParams({ version, keys: key })}`, signal)
      return { key, content: lookupOnly ? undefined : content }
    },

    async saveCache({ key, version, content, signal }) {
      const query = new URLSearchParams({ key, version })
      const { status } = await upload(`/caches?${query}`, content, signal)
      return status === 200 ? 'exists' : 'saved'
    },

    async listArtifacts(signal) {
      const response = await connection.request(get('/artifacts', signal))
      if (!Array.isArray(response))
        throw new UnexpectedResponseError('There is no list of artifacts.')
      return response.map((one) => ({ name: String(one?.name), size: Number(one?.size) }))
    },

    artifactContent: (name, signal) =>
      contentAt(`/artifacts/content?${new URLSearchParams({ name })}`, signal),

    async saveArtifact({ name, retentionDays, overwrite, content, signal }) {
      const query = new URLSearchParams({ name, overwrite: String(overwrite) })
      if (retentionDays !== undefined) query.set('retentionDays', String(retentionDays))
      return toSaved((await upload(`/artifacts?${query}`, content, signal)).value)
    },
  }
}

function toSaved(response: unknown): SavedArtifact {
  const { id, url, size, sha256 } = Object(response)
  if ([id, url, sha256].some((text) => typeof text !== 'string') || typeof size !== 'number')
    throw new UnexpectedResponseError('The response to an artifact has another format.')
  return { id, url, size, sha256 }
}
