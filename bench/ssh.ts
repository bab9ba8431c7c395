import { existsSync } from 'node:fs'
import { mkdir, rmdir, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../test/support/free-port.ts'
import { newSshKey, type SshKey, sshCommand } from '../test/support/openssh.ts'
import type { Fixtures, Source } from './fixtures.ts'
import {
  measureClone,
  measureFetch,
  measureFetchOfCommit,
  measureListing,
  measureSmallPush,
  publish,
} from './git-commands.ts'
import { confineServer } from './isolation.ts'
import { bareHosts, installPeer } from './peers.ts'
import { print } from './print.ts'
import { start, untilListening } from './processes.ts'
import { type Row, timeRow } from './rows.ts'
import { startSvc } from './svc.ts'
import { type Workspace, withSsh } from './workspace.ts'

type SshEffort = {
  listings: number
  clones: number
  smallPushes: number
  bigClones: number
  seconds: number
}

/** Compares svc with sshd and git-shell for a git client. */
export async function measureSsh(
  workspace: Workspace,
  fixtures: Fixtures,
  { seconds, ...effort }: SshEffort,
): Promise<Row[]> {
  const { history, bulk } = fixtures
  const { sshd } = await installPeer('ssh')
  print('Starting sshd with git-shell, and svc')
  const { client, key } = await createSshClient(workspace)
  await using peer = await startSshPeer(client, { sshd, key })
  await using service = await startSvc({ dataDir: join(workspace.folder, 'data-ssh') })
  const svc = await service.overSsh(key)
  const publishBoth = async (source: Source) => ({
    svc: await publish(client, svc, source),
    peer: await publish(client, peer.durable, source),
  })
  const addresses = await publishBoth(history)
  // Not the same repository, since a commit that is there already is pushed without its objects.
  const addressesToFollow = await publishBoth({ ...history, name: 'followed' })
  const defaults = await publish(client, peer.defaults, history)
  const addressesOfBulk = await publishBoth(bulk)

  const upTo = (rounds: number) => ({ rounds, seconds })
  const smallPush = { ...fixtures, ...upTo(effort.smallPushes) }
  const listing = await measureListing(client, addresses, upTo(effort.listings))
  const fetch = await measureFetch(client, addresses, upTo(effort.listings))
  const follow = await measureFetchOfCommit(client, addressesToFollow, smallPush)
  const clone = await measureClone(client, addresses, upTo(effort.clones))
  const push = await measureSmallPush(client, { ...addresses, defaults }, smallPush)
  const cloneOfBulk = await measureClone(client, addressesOfBulk, upTo(effort.bigClones))
  await service.stop()
  return [
    timeRow('ssh: ls-remote', listing),
    timeRow('ssh: fetch without changes', fetch),
    timeRow('ssh: fetch of a commit', follow),
    timeRow('ssh: clone', clone),
    timeRow('ssh: push of a commit', push),
    timeRow('ssh: clone of 256 MiB', cloneOfBulk),
  ]
}

/** A git client that logs in over SSH with a key of its own. */
export async function createSshClient(workspace: Workspace) {
  const key = await newSshKey(join(workspace.folder, 'key'))
  const knownHosts = join(workspace.folder, 'known-hosts')
  return { key, client: withSsh(workspace, sshCommand({ key: key.path, knownHosts })) }
}

// Required by Debian's sshd when it runs as root; normally its start script creates it.
const privilegeFolder = '/run/sshd'

/** Debian's sshd with git-shell, on its own loopback port, for the owner of one key. */
async function startSshPeer(workspace: Workspace, { sshd, key }: { sshd: string; key: SshKey }) {
  await using starting = new AsyncDisposableStack()
  const folder = join(workspace.folder, 'ssh-peer')
  const home = join(folder, 'home')
  const config = join(folder, 'sshd_config')
  const keys = join(folder, 'authorized_keys')
  const port = await freePort()
  await mkdir(home, { recursive: true })
  const hostKey = (await newSshKey(join(folder, 'host-key'))).path
  await writeFile(keys, `${gitOnly} ${key.publicKey}\n`)
  await writeFile(config, sshdConfig({ home, port, keys, hostKey, env: workspace.env }))
  starting.use(await privilegeSeparation())
  const { prefix, cpuMs } = starting.use(confineServer())
  const words = [...prefix, sshd, '-D', '-e', '-f', config]
  const server = starting.use(start(words, workspace.env))
  const listening = untilListening([{ host: '127.0.0.1', port }], workspace.signal)
  await Promise.race([listening, server.failed])

  const running = starting.move()
  const address = `ssh://${userInfo().username}@127.0.0.1:${port}${folder}`
  return {
    ...bareHosts({ workspace, folder, address }),
    cpuMs,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

// As a login shell, git-shell would start without another shell, but that needs a new user on this machine and
// saves less than 2 % of the time of an ls-remote.
const gitOnly = 'restrict,command="exec git-shell -c \\"$SSH_ORIGINAL_COMMAND\\""'

type SshdOptions = {
  home: string
  port: number
  keys: string
  hostKey: string
  env: NodeJS.ProcessEnv
}

// Without PAM, which only costs time, and with the client's protocol version, as in git-protocol(5). The client's
// SHLVL makes Bash skip the start-up files, which would slow it down.
function sshdConfig({ home, port, keys, hostKey, env }: SshdOptions): string {
  const session = Object.entries({ ...env, HOME: home, SHLVL: '2' })
  return `ListenAddress 127.0.0.1:${port}
HostKey ${hostKey}
AuthorizedKeysFile ${keys}
StrictModes no
PidFile none
LogLevel ERROR
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv GIT_PROTOCOL
SetEnv ${session.map(([name, value]) => `"${name}=${value}"`).join(' ')}
`
}

async function privilegeSeparation(): Promise<AsyncDisposable> {
  const isNeeded = process.getuid?.() === 0 && !existsSync(privilegeFolder)
  if (isNeeded) await mkdir(privilegeFolder, { mode: 0o755 })
  return {
    async [Symbol.asyncDispose]() {
      if (isNeeded) await rmdir(privilegeFolder)
    },
  }
}
