// Separate from the schemas, which a runner need not load.

/** Maximum number of bytes in a request. */
export const shellPieceMaxBytes = 64 * 1024
