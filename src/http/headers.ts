const contentSecurityPolicy = "default-src 'none'; frame-ancestors 'none'"

/** The headers of all responses. */
export const commonHeaders = [
  ['x-content-type-options', 'nosniff'],
  ['content-security-policy', contentSecurityPolicy],
  ['cache-control', 'no-store'],
] as const
