// The page of documentation brings its own style and needs nothing else.
const contentSecurityPolicy =
  "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

/** The headers of all answers. */
export const commonHeaders = [
  ['x-content-type-options', 'nosniff'],
  ['content-security-policy', contentSecurityPolicy],
  ['cache-control', 'no-store'],
] as const
