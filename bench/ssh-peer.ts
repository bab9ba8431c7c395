import { existsSync } from 'node:fs'
import { mkdir, rmdir, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../test/support/free-port.ts'
import { newSshKey, type SshKey } from '../test/support/openssh.ts'
import { bareHosts } from './bare-host.ts'
import { createEnclosure } from './enclosure.ts'
import { untilListening } from './listening.ts'
import { start } from './program.ts'
import type { Workspace } from './workspace.ts'

// Required by Debian's sshd when it runs as root; normally its start script creates it.
const privilegeFolder = '/run/sshd'

/** Debian's sshd with git-shell, on its own loopback port, for the owner of one key. */
export async function startSshPeer(
  workspace: Workspace,
  { sshd, key }: { sshd: string; key: SshKey },
) {
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
  const { prefix, cpuMs } = starting.use(createEnclosure())
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

type Places = {
  home: string
  port: number
  keys: string
  hostKey: string
  env: NodeJS.ProcessEnv
}

// Without PAM, which only costs time, and with the client's protocol version, as in git-protocol(5). The client's
// SHLVL makes Bash skip the start-up files, which would slow it down.
function sshdConfig({ home, port, keys, hostKey, env }: Places): string {
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
