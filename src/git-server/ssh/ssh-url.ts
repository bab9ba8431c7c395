import type { Settings } from '../../config/settings.ts'
import { sshUser } from './git-over-ssh.ts'
import type { Listening } from './ssh-process.ts'

/** The SSH base URL for clients. Its host is that of the public base URL, if one is set. */
export function toSshUrl({ baseUrl }: Settings, { host, port }: Listening): string {
  const name = baseUrl === undefined ? host : new URL(baseUrl).hostname
  return reachable(`ssh://${sshUser}@${name}:${port}`)
}

/** Replaces a wildcard address, which clients cannot connect to, by the loopback address. */
export function reachable(url: string): string {
  return url.replace(/(?<=[/@])0\.0\.0\.0:/, '127.0.0.1:').replace(/(?<=[/@])\[::\]:/, '[::1]:')
}
