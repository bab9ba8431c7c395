// Separate from the schemas, which a runner need not load.

/** Maximum size of the body of a report. */
export const reportMaxBytes = 512 * 1024
/** Maximum number of entries of a report. */
export const reportMaxEntries = 500
/** Maximum wait of a long poll. */
export const waitMaxSeconds = 30
