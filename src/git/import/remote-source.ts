import type { Agent } from 'node:http'
import { fileURLToPath } from 'node:url'
import type { Sensitive } from '#base/sensitive.ts'
import { openHttpRelay } from './http-relay.ts'
import type { OpenedSource } from './import-refs.ts'
import type { MirrorSource } from './mirror.ts'
import { createRemoteLfsSource } from './remote-lfs-source.ts'
import { createSourceRequests } from './source-requests.ts'

/** The address of a remote repository. */
type RemoteAddress = {
  protocol: 'http' | 'https' | 'ssh' | 'git'
  host: string
  port: number | undefined
  path: string
  username: Sensitive<string> | undefined
  password: Sensitive<string> | undefined
}

type Options = {
  /** Resolves hosts and checks that connections to them are allowed; an agent connects only to allowed addresses. */
  outbound: {
    resolve: (host: string) => Promise<[string, ...string[]]>
    agentFor: (url: URL) => Promise<Agent>
  }
  /** The file of known host keys: ssh(1), known_hosts. */
  knownHosts: string
  /** A file of the same form that is only read. */
  trustedHosts?: string | undefined
  signal: AbortSignal
  /** Called when data of the source arrives. */
  onArrival: () => void
}

const askpass = fileURLToPath(new URL('askpass', import.meta.url))
const usualSshPort = 22
// Between git and the relay. Git sends requests beyond its buffer chunked, which HTTP/1.0 does not support; this size
// holds half a million refs.
const relayed = { 'http.followRedirects': 'false', 'http.proxy': '', 'http.postBuffer': '32m' }

/** Prepares a remote source for git, which connects only to checked addresses. Throws a Problem for a forbidden host. */
export async function openRemoteSource(
  remote: RemoteAddress,
  options: Options,
): Promise<OpenedSource> {
  const { protocol } = remote
  if (protocol === 'http' || protocol === 'https') return openHttp(remote, options)
  const [address] = await options.outbound.resolve(remote.host)
  const source =
    protocol === 'ssh' ? toSshSource(remote, address, options) : toGitSource(remote, address)
  return {
    from: { remote: source },
    lfs: undefined,
    fault: () => undefined,
    async [Symbol.asyncDispose]() {},
  }
}

async function openHttp(
  { protocol, host, port, path, username, password }: RemoteAddress,
  { outbound, signal, onArrival }: Options,
): Promise<OpenedSource> {
  const url = new URL(`${protocol}://${bracketed(host)}${port ? `:${port}` : ''}${path}`)
  const pair = `${username?.reveal() ?? ''}:${password?.reveal() ?? ''}`
  const authorization =
    username || password ? `Basic ${Buffer.from(pair).toString('base64')}` : undefined
  // Fails before the relay is started if the policy forbids the host.
  await outbound.resolve(host)
  const { agentFor } = outbound
  const requests = createSourceRequests({ url, authorization, agentFor, signal })
  const relay = await openHttpRelay({ requests, signal, onProgress: onArrival })
  return {
    from: { remote: { address: relay.address, protocol: 'http', config: relayed } },
    lfs: createRemoteLfsSource(requests),
    fault: relay.fault,
    async [Symbol.asyncDispose]() {
      await relay[Symbol.asyncDispose]()
      await requests[Symbol.asyncDispose]()
    },
  }
}

function toGitSource({ host, port, path }: RemoteAddress, address: string): MirrorSource {
  return {
    address: `git://${bracketed(address)}${port ? `:${port}` : ''}${path}`,
    protocol: 'git',
    // The virtual host at that address: git-daemon(1).
    variables: { GIT_OVERRIDE_VIRTUAL_HOST: bracketed(host) + (port ? `:${port}` : '') },
  }
}

/** A path as a value of ssh_config(5). */
function inQuotes(path: string): string {
  return `"${path.replaceAll('%', '%%')}"`
}

/**
 * Makes a source of an SSH address. Keys and settings of the server's user are not used, only the password in the
 * address, if any. Host keys are trusted on first use.
 */
function toSshSource(
  { host, port = usualSshPort, path, username, password }: RemoteAddress,
  address: string,
  { knownHosts, trustedHosts }: Pick<Options, 'knownHosts' | 'trustedHosts'>,
): MirrorSource {
  const user = username ? `${encodeURIComponent(username.reveal())}@` : ''
  const options = {
    HostName: address,
    HostKeyAlias: port === usualSshPort ? host : `[${host}]:${port}`,
    UserKnownHostsFile: inQuotes(knownHosts),
    GlobalKnownHostsFile: trustedHosts === undefined ? '/dev/null' : inQuotes(trustedHosts),
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
    address: `ssh://${user}${bracketed(host)}:${port}${path}`,
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

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
