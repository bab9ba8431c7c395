import { trimEndOf } from '#base/trim-end.ts'

/** Where objects are stored: a bucket of an S3 service, and the prefix of all keys in it. */
export type StoreAddress = {
  /** The origin of the service; the bucket is the first part of each path. */
  endpoint: string
  region: string
  bucket: string
  /** Without slashes around it; empty when the bucket is not shared. */
  prefix: string
}

/** The settings that a store requires: any of some variables, and why. */
const needs: [variables: string[], reason?: string][] = [
  [['SVC_DATABASE_URL'], 'refs and small pushes are in PostgreSQL'],
  [['SVC_STORE_ACCESS_KEY_ID']],
  [['SVC_STORE_SECRET_ACCESS_KEY']],
  [['SVC_ENCRYPTION_KEY', 'SVC_ENCRYPTION_KEY_FILE'], 'all servers must have the same key'],
]
const needsOfSsh: typeof needs = [
  [['SVC_SSH_HOST_KEY_FILE'], 'all servers must have the same key; or SVC_SSH_PORT=off'],
]

type StoreValues = { store: StoreAddress | undefined; sshPort: number | 'off' }

/** Describes the settings that a store requires and that are not set, one line each. */
export function storeFaults(
  { store, sshPort }: StoreValues,
  environment: Readonly<Record<string, string | undefined>>,
): string[] {
  if (store === undefined) return []
  return [...needs, ...(sshPort === 'off' ? [] : needsOfSsh)]
    .filter(([variables]) => !variables.some((variable) => environment[variable]))
    .map(([variables, reason]) => {
      const parts = [variables.join(' or '), reason].filter((part) => part !== undefined)
      return `SVC_STORE: it also needs ${parts.join(': ')}.`
    })
}

const parameters = ['endpoint', 'region']

/** Parses the value of SVC_STORE; undefined when it is not accepted. */
export function parseStoreAddress(text: string): StoreAddress | undefined {
  const url = toStoreUrl(text)
  if (!url || storeAddressFault(text) !== undefined) return undefined
  const region = url.searchParams.get('region') ?? 'us-east-1'
  const endpoint = url.searchParams.get('endpoint') ?? `https://s3.${region}.amazonaws.com`
  return {
    endpoint: new URL(endpoint).origin,
    region,
    bucket: url.hostname,
    prefix: trimEndOf(url.pathname, '/').slice(1),
  }
}

function toStoreUrl(text: string): URL | undefined {
  const isPlain = /^s3:\/\/[\x21-\x7e]{1,1024}$/.test(text)
  return (isPlain && URL.parse(text)) || undefined
}

/** The specific reason why an address of a store is not accepted, if there is one. */
export function storeAddressFault(text: string): string | undefined {
  // Credentials must not be repeated in the error text, wherever they make the address invalid.
  if (text.includes('@'))
    return 'it has credentials, which belong in SVC_STORE_ACCESS_KEY_ID and SVC_STORE_SECRET_ACCESS_KEY'
  const url = toStoreUrl(text)
  if (!url) return undefined
  const { searchParams } = url
  const unknown = [...searchParams.keys()].find((name) => !parameters.includes(name))
  const repeated = parameters.find((name) => searchParams.getAll(name).length > 1)
  const [endpoint, region] = parameters.map((name) => searchParams.get(name))
  if (!/^[a-z\d][a-z\d.-]{1,61}[a-z\d]$/.test(url.hostname) || url.port)
    return `${JSON.stringify(url.host)} is not the name of a bucket`
  if (!/^(\/[\w.-]+)*\/?$/.test(url.pathname) || url.pathname.length > 256)
    return 'its prefix has other characters than letters, digits and ._-/, or more than 256'
  if (url.hash) return 'it has a fragment'
  if (unknown !== undefined) return `${JSON.stringify(unknown)} is not one of its parameters`
  if (repeated !== undefined) return `it has several values of ${JSON.stringify(repeated)}`
  if (endpoint == null && region == null) return 'it has neither an endpoint nor a region'
  if (endpoint != null && !isOrigin(endpoint))
    return 'its endpoint is not an http or https address without user, path, query and fragment'
  if (region != null && !/^[\w-]{1,64}$/.test(region)) return 'its region is not a name'
  return undefined
}

function isOrigin(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`
}
