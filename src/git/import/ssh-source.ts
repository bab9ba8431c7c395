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

type Way = {
  /** The address of the host that was checked. */
  address: string
  /** The file in which the keys of hosts are remembered: ssh(1), known_hosts. */
  knownHosts: string
}

const askpass = fileURLToPath(new URL('askpass', import.meta.url))
const usualPort = 22

/**
 * How git reaches a repository over SSH: with no key and no setting of whoever runs the service, only with the
 * password in the address, if there is one. A host is taken for what it was when it was first met.
 */
export function toSshSource(source: SshAddress, { address, knownHosts }: Way): MirrorSource {
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
    // A host's banner would stand among ssh's own words.
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

/** A word of a shell's command line: POSIX, "Single-Quotes". */
function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}
