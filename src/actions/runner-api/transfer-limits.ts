// Separate from the schemas, which a runner need not load.

/** Maximum size of the body of a report. */
export const reportMaxBytes = 512 * 1024
/** Maximum number of entries of a report. */
export const reportMaxEntries = 500
/** Maximum wait of a long poll. */
export const waitMaxSeconds = 30

// Separate from the schemas, which a runner need not load.

/** Maximum number of bytes in a request. */
export const shellPieceMaxBytes = 64 * 1024

// Separate from the schemas, which a runner need not load.

/**
 * The content of artifacts and caches: a tar archive, compressed with zstd. The server does not look into it.
 *
 * - `PUT /runner/runs/:id/artifacts?name=…` with the content. 201 with its name, size and SHA-256; 409 when the attempt has
 *   an artifact of this name and `overwrite` is not true; 413 beyond a limit, before the body is read where its length is declared.
 * - `GET /runner/runs/:id/artifacts` lists artifacts; `GET /runner/runs/:id/artifacts/content?name=…` is one of them.
 * - `PUT /runner/runs/:id/caches?key=…&version=…` with the content. 201, or 200 when there is such a cache: it is not replaced.
 * - `GET /runner/runs/:id/caches?keys=…&keys=…&version=…`: the content, with its key in the header `cacheKeyHeader`,
 *   percent-encoded, or 204. With `lookup=true` only the header.
 *
 * A client that sends `Expect: 100-continue` learns that the server does not want a body before it sends it.
 */
export const runFileContentType = 'application/zstd'

/** The key of the cache in a response, as encodeURIComponent writes it. */
export const cacheKeyHeader = 'svc-cache-key'
