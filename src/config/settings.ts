import type { Setting } from './setting.ts'
import { settings } from './settings-table.ts'
import { storeFaults } from './store-settings.ts'
import { isServiceAddress, serviceLinkHint, unknownVariables } from './unknown-variables.ts'

type Table = typeof settings
type Unset =
  | 'baseUrl'
  | 'freeSpaceMinBytes'
  | 'databaseUrl'
  | 'store'
  | 'storeAccessKeyId'
  | 'storeSecretAccessKey'
  | 'repositoryCacheBytes'
  | 'adminToken'
  | 'oidcIssuer'
  | 'oidcClientId'
  | 'oidcClientSecret'
  | 'oidcScopes'
  | 'oidcAllowedGroups'
  | 'oidcAdminGroups'
  | 'encryptionKey'
  | 'encryptionKeyFile'
  | 'sshPublicPort'
  | 'sshHostKeyFile'
  | 'importKnownHostsFile'
  | 'maxConcurrentFetches'
  | 'maxConcurrentBrowses'
  | 'maxConcurrentArchives'
  | 'importLocalRoots'
  | 'outboundAllow'
  | 'runnerJobs'
  | 'trustedProxies'
  | 'sandboxPaths'
  | 'tools'
  | 'stepEnv'
  | 'stepHosts'
  | 'namespaceCreators'
  | 'faultPoint'
type ValueOf<K extends keyof Table> = Exclude<ReturnType<Table[K]['parse']>, undefined>

/** The parsed settings: sizes in bytes, times in seconds, undefined for what is unset by default. */
export type Settings = {
  readonly [K in keyof Table]: K extends Unset ? ValueOf<K> | undefined : ValueOf<K>
}

/** Settings without secrets. */
export type PlainSettings = Omit<Settings, (typeof secretKeys)[number]>

const secretKeys = [
  'adminToken',
  'oidcClientSecret',
  'databaseUrl',
  'storeAccessKeyId',
  'storeSecretAccessKey',
  'encryptionKey',
  'encryptionKeyFile',
] as const

/** Returns a copy without the secret settings. */
export function withoutSecrets(settings: PlainSettings): PlainSettings {
  const plain: Partial<Settings> = { ...settings }
  for (const key of secretKeys) delete plain[key]
  // The deleted keys are exactly those that the type omits.
  return plain as PlainSettings
}

/** Settings that are not accepted; the message has one line per setting. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError'
}

/**
 * Reads all settings from an environment. An empty variable counts as unset. Throws a SettingsError for
 * values that are not accepted and for misspelt variables.
 */
export function readSettings(environment: NodeJS.ProcessEnv): Settings {
  const faults: string[] = []
  const values = Object.entries(settings).map(([key, setting]: [string, Setting<unknown>]) => {
    const text = environment[setting.variable] || setting.fallback
    const isUnset = text === '' || text === setting.unset
    const value = isUnset ? undefined : setting.parse(text)
    if (!isUnset && value === undefined) faults.push(describeFault(setting, text))
    return [key, value] as const
  })
  for (const { meant, message } of unknownVariables(environment)) {
    if (meant !== undefined) faults.push(message)
  }
  // Each parser returns its setting's type, and a value is missing only where the setting can be unset, or has a fault.
  const read = Object.fromEntries(values) as Settings
  faults.push(...storeFaults(read, environment))
  if (read.stepHosts && read.sandboxNetwork === 'full') faults.push(networkFault)
  if (read.oidcIssuer !== undefined && read.oidcClientId === undefined) faults.push(clientIdFault)
  if (faults.length > 0) throw new SettingsError(faults.join('\n'))
  return read
}

const networkFault =
  'SVC_STEP_HOSTS: steps have the whole network, because SVC_SANDBOX_NETWORK is full; unset one of the two.'

const clientIdFault =
  'SVC_OIDC_CLIENT_ID: it is needed with SVC_OIDC_ISSUER; the identity provider gives it out for this service.'

function describeFault(setting: Setting<unknown>, text: string): string {
  const { variable, accepts, sensitive } = setting
  const value = sensitive ? 'its value' : JSON.stringify(text)
  const fault = setting.fault?.(text) ?? `${value} is not accepted`
  if (isServiceAddress(text))
    return `${variable}: ${value} is the address of a Service. ${serviceLinkHint}.`
  return `${variable}: ${fault}; it takes ${accepts}.`
}
