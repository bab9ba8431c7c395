import { UsageError } from '../commands/usage-error.ts'

/** Parses the address of a server: without a path at the end, credentials, query or fragment. Adds `https://`. */
export function parseServerAddress(text: string, source = 'The address'): string {
  const full = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `https://${text}`
  const url = URL.parse(full)
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.hostname === '') {
    throw new UsageError(`${source} is not an http or https URL, such as https://git.example.com.`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError(
      `${source} contains a user name or a password. Leave it out: svc login asks for the token.`,
    )
  }
  if (url.search !== '' || url.hash !== '') {
    throw new UsageError(`${source} contains a query or a fragment; give it up to the path.`)
  }
  return `${url.origin}${url.pathname.replace(/\/$/, '')}`
}

/** Whether requests to this address stay on the machine. */
export function isLoopback(url: string): boolean {
  const { hostname } = new URL(url)
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname)
}
