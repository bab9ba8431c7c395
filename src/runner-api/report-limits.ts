// By themselves: a runner needs no more of the schemas than these.

/** Bytes that the body of a report has at most, as it is sent. */
export const reportMaxBytes = 512 * 1024
/** Entries that a report has at most. */
export const reportMaxEntries = 500
/** The longest that a claim or a look for orders may ask to wait. */
export const waitMaxSeconds = 30
