/** How long, and for how many bytes, the rest of a request is discarded whose response was sent before its end. */
export const lingerMs = 5000
export const lingerMaxBytes = 4 * 1024 * 1024
