import { fileURLToPath } from 'node:url'
import type { Sensitive } from '../../base/sensitive.ts'
import type { MirrorSource } from './mirror.ts'

type SshAddress = {
  host: string
  port: number | undefined
  path: string
  username: Sensitive<string> | undefined
  password: Sensitive<string> | undefined
}

type Connection = {
  /** The checked address of the host. */
  address: string
  /** The file of known host keys: ssh(1), known_hosts. */
  knownHosts: string
}

const askpass = fileURLToPath(new URL('askpass', import.meta.url))
const usualPort = 22

/**
 * Makes a source of an SSH address. Keys and settings of the server's user are not used, only the password in the
 * address, if any. Host keys are trusted on first use.
 */
export function toSshSource(source: SshAddress, { address, knownHosts }: Connection): MirrorSource {
  const { host, port = usualPort, path, username, password } = source
  const user = username ? `${encodeURIComponent(username.reveal())}@` : ''
  const options = {
    HostName: address,
    HostKeyAlias: port === usualPort ? host : `[${host}]:${port}`,
    UserKnownHostsFile: `"${knownHosts.replaceAll('%', '%%')}"`,
    GlobalKnownHostsFile: '/dev/null',
    StrictHostKeyChecking: 'accept-new',
    UpdateHostKeys: 'no',
    CheckHostIP: 'no',
    IdentityAgent: 'none',
    IdentityFile: 'none',
    IdentitiesOnly: 'yes',
    PreferredAuthentications: password ? 'password,keyboard-interactive' : 'none',
    NumberOfPasswordPrompts: '1',
    BatchMode: password ? 'no' : 'yes',
    ControlMaster: 'no',
    ControlPath: 'none',
    ProxyCommand: 'none',
    ForwardAgent: 'no',
    ClearAllForwardings: 'yes',
    PermitLocalCommand: 'no',
    // Keeps the host's banner out of ssh's messages.
    LogLevel: 'ERROR',
  }
  const words = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  return {
    address: `ssh://${user}${host.includes(':') ? `[${host}]` : host}:${port}${path}`,
    protocol: 'ssh',
    variables: {
      GIT_SSH_COMMAND: ['ssh', '-F', '/dev/null', ...words].map(quoted).join(' '),
      GIT_SSH_VARIANT: 'ssh',
      ...(password && {
        SSH_ASKPASS: askpass,
        SSH_ASKPASS_REQUIRE: 'force',
        SVC_SOURCE_PASSWORD: password.reveal(),
      }),
    },
  }
}

/** Quotes a word of a shell command line: POSIX, "Single-Quotes". */
function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}
