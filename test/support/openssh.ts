import { join } from 'node:path'
import { programs } from './programs.ts'
import { generateKey } from './ssh-keys.ts'

/** The real clients: that of this machine, and Debian 13's, which would rather exchange keys by ML-KEM. */
export const sshClients = ['openssh', 'openssh-10'] as const

export type SshClient = (typeof sshClients)[number]

/** A key pair on disk: the path of the private key, and the line of the public one. */
export type SshKey = { path: string; publicKey: string }

type Identity = {
  /** Path of the private key. */
  key: string
  /** Path of a file, which need not be there yet: who was met there is recognised when met again. */
  knownHosts: string
  client?: SshClient
}

/** Path of a program of a client. */
export function sshProgram(client: SshClient, name: 'ssh' | 'ssh-keygen'): string {
  const folder = programs[client].find()
  if (folder === undefined) throw new Error(`${client} is missing: ${programs[client].install}`)
  return join(folder, name)
}

/** For git's GIT_SSH_COMMAND: ssh with this key alone, without questions and without this machine's settings. */
export function sshCommand({ key, knownHosts, client = 'openssh' }: Identity): string {
  const options = [
    'IdentitiesOnly=yes',
    'IdentityAgent=none',
    `UserKnownHostsFile=${knownHosts}`,
    'GlobalKnownHostsFile=none',
    'StrictHostKeyChecking=accept-new',
    'BatchMode=yes',
  ]
  const program = sshProgram(client, 'ssh')
  return [program, '-F', 'none', '-i', key, ...options.flatMap((one) => ['-o', one])].join(' ')
}

/** Makes a key pair without a passphrase; `kind` as ssh-keygen's `-t` has it, with more options perhaps. */
export async function newSshKey(path: string, kind = 'ed25519'): Promise<SshKey> {
  return { path, publicKey: (await generateKey(path, '-t', ...kind.split(' '))).trim() }
}
