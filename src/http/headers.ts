// The documentation page has an inline style and needs no other resources.
const contentSecurityPolicy =
  "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

/** The headers of all responses. */
export const commonHeaders = [
  ['x-content-type-options', 'nosniff'],
  ['content-security-policy', contentSecurityPolicy],
  ['cache-control', 'no-store'],
] as const
