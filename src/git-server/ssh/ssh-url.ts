import type { Settings } from '../../config/settings.ts'
import { sshUser } from './git-over-ssh.ts'
import type { Listening } from './ssh-process.ts'

/** The address of SSH for clients. Its host is that of the public address, if there is one. */
export function toSshUrl({ baseUrl }: Settings, { host, port }: Listening): string {
  const name = baseUrl === undefined ? host : new URL(baseUrl).hostname
  return reachable(`ssh://${sshUser}@${name}:${port}`)
}

/** An address that can be connected to: who listens everywhere is found here, at least. */
export function reachable(url: string): string {
  return url.replace(/(?<=[/@])0\.0\.0\.0:/, '127.0.0.1:').replace(/(?<=[/@])\[::\]:/, '[::1]:')
}
