import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { messages } from '#ssh/messages.ts'
import { message } from '#ssh/wire.ts'
import { until } from './condition.ts'
import { createProject, git, temporaryFolder } from './git.ts'
import { untilTidy } from './leftovers.ts'
import { newSshKey, sshCommand } from './openssh.ts'
import { processesIn } from './processes.ts'
import { openPushRecords } from './push-records.ts'
import { connectRawSsh, toLine, userauthRequest } from './raw-ssh.ts'
import { startServiceWithSsh } from './service.ts'

export type SshSite = Awaited<ReturnType<typeof startSshSite>>

type Options = {
  env?: Record<string, string>
  dataDir?: string
}

const mib = 1024 * 1024
const attackers = { SVC_SSH_UNAUTHENTICATED_PER_ADDRESS: '200', SVC_SSH_UNAUTHENTICATED: '200' }

/** A service with the repository `site`, a key on disk for real clients, and one for raw connections. */
export async function startSshSite({ env = {}, ...options }: Options = {}) {
  await using starting = new AsyncDisposableStack()
  const folder = starting.use(await temporaryFolder())
  const service = starting.use(
    await startServiceWithSsh({ ...options, env: { ...attackers, ...env } }),
  )
  const key = await newSshKey(join(folder.path, 'key'))
  const rawKey = generateKeyPairSync('ed25519')
  for (const publicKey of [key.publicKey, toLine(rawKey.publicKey)]) {
    const { status, text } = await service.admin.post('/keys', { name: 'test', publicKey })
    assert.equal(status, 201, text)
  }
  assert.equal((await service.admin.post('/repos', { name: 'site' })).status, 201)
  const command = sshCommand({ key: key.path, knownHosts: join(folder.path, 'known') })
  let [copies, earlier] = [0, 0]
  const started = starting.move()

  return {
    service,
    key,
    rawKey,

    /** The address of the repository, for git; of another port for a client that is sent a detour. */
    remote: (port = service.sshPort) => `ssh://svc@127.0.0.1:${port}/site.git`,

    /** Environment variables with which git uses the real ssh and the key. */
    sshEnv: { GIT_SSH_COMMAND: command },

    /** Runs the real git over the real ssh, with more options for ssh if there are any. */
    git: (cwd: string, args: string[], sshOptions = '') =>
      git(cwd, args, { GIT_SSH_COMMAND: `${command} ${sshOptions}` }),

    /** Sends bytes to git-upload-pack or another program, over the real ssh; what it writes until it ends. */
    async exchange(program: string, protocol: string, body: Buffer | string) {
      const [ssh = '', ...options] = command.split(' ')
      const target = ['-p', String(service.sshPort), 'svc@127.0.0.1', `${program} '/site.git'`]
      const child = spawn(
        ssh,
        [...options, '-o', 'SendEnv=GIT_PROTOCOL', '-o', 'LogLevel=ERROR', ...target],
        {
          env: { ...process.env, GIT_PROTOCOL: protocol },
        },
      )
      child.stdin.on('error', () => {}).end(body)
      const [stdout, stderr] = await Promise.all([
        text(child.stdout.setEncoding('latin1')),
        text(child.stderr),
        once(child, 'close'),
      ])
      return { stdout, stderr }
    },

    /** A folder that is not there yet, and goes with the service. */
    newFolder: () => join(folder.path, `copy-${copies++}`),

    /** Puts an empty repository in place of `site`, which gets another name. */
    async renew(): Promise<void> {
      await service.admin.patch('/repos/site', { name: `earlier-${earlier++}` })
      assert.equal((await service.admin.post('/repos', { name: 'site' })).status, 201)
    },

    /** A raw connection that has authenticated. */
    async connect() {
      const client = await connectRawSsh(service.sshPort)
      await client.requestUserauth()
      const signed = { by: rawKey.privateKey, sessionId: client.sessionId() }
      client.send(userauthRequest('svc', rawKey.publicKey, signed))
      if (!(await client.next(messages.userauthSuccess))) throw new Error('It was not let in.')
      return client
    },

    /** The branches and what they point to, as git lists them. */
    async refs(): Promise<string[]> {
      const { stdout } = await git('/', ['ls-remote', '--heads', service.admin.remote('site')])
      return stdout.split('\n').filter((line) => line !== '')
    },

    /** Waits until no client has left a process, an unsettled push or a file behind. */
    async untilNothingIsLeft(): Promise<void> {
      await until('no git process is left', () => processesIn(service.dataDir).length === 0)
      using records = openPushRecords(service.dataDir)
      await until('no push is unsettled', () => records.unfinished().length === 0)
      await untilTidy(service.dataDir)
    },

    [Symbol.asyncDispose]: () => started.disposeAsync(),
  }
}

/** A request to run something on a channel. */
export function execRequest(channel: number, command: string): Buffer {
  return message(messages.channelRequest, channel, 'exec', true, command)
}

/** A project with incompressible files, which git is configured not to compress. */
export async function createLargeProject(bytes: number) {
  const project = await createProject()
  for (const [name, value] of [
    ['core.compression', '0'],
    ['core.bigFileThreshold', '1m'],
  ] as const) {
    await project.git('config', name, value)
  }
  for (let number = 0; number * 16 * mib < bytes; number++) {
    const content = randomBytes(Math.min(16 * mib, bytes - number * 16 * mib))
    await writeFile(join(project.path, `large-${number}.bin`), content)
  }
  await project.git('add', '.')
  await project.git('commit', '--quiet', '-m', 'Add large files')
  return project
}
