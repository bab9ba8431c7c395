import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { git, temporaryFolder } from './git.ts'
import { newSshKey, type SshClient, sshCommand } from './openssh.ts'
import type { Client, Service } from './service.ts'

/** How a program ended. */
export type Ended = { exitCode: number; stdout: string; stderr: string }

export type SshUser = Awaited<ReturnType<typeof createSshUser>>

type Options = {
  /** As ssh-keygen's `-t` has it. */
  kind?: string
  client?: SshClient
  /** The SSH user to log in as. */
  user?: string
}

/** A user with a key pair of ssh-keygen, registered with a client's token if given. */
export async function createSshUser(
  service: Pick<Service, 'dataDir' | 'sshPort'>,
  by?: Client,
  options: Options = {},
) {
  const { kind = 'ed25519', client = 'openssh', user = 'svc' } = options
  const folder = await temporaryFolder()
  const knownHosts = join(folder.path, 'known_hosts')
  const host = await readFile(join(service.dataDir, 'ssh_host_ed25519_key.pub'), 'utf8')
  // Met before, so that ssh says nothing of its own, and notices another host key.
  await writeFile(knownHosts, `[127.0.0.1]:${service.sshPort} ${host}`)
  const key = await newSshKey(join(folder.path, 'key'), kind)
  const registered = await by?.post('/keys', { name: 'laptop', publicKey: key.publicKey })
  const command = sshCommand({ key: key.path, knownHosts, client })

  function ssh(words: string[], sshOptions: string[] = []): Promise<Ended> {
    const [program = '', ...before] = command.split(' ')
    const target = ['-p', String(service.sshPort), `${user}@127.0.0.1`]
    return run(program, [...before, ...sshOptions, ...target, ...words])
  }

  return {
    ...key,
    folder: folder.path,
    username: by?.username ?? '',
    /** The key's id, if it was registered. */
    keyId: String(registered?.body.id),
    fingerprint: String(registered?.body.fingerprint),
    /** When the key expires. */
    expiresAt: registered?.body.expiresAt as number | null | undefined,
    /** For GIT_SSH_COMMAND. */
    command,
    remote: (name: string) => `ssh://${user}@127.0.0.1:${service.sshPort}/${name}.git`,
    /** Runs ssh with a command for the server, and perhaps options of its own. */
    ssh: (line: string, ...sshOptions: string[]) => ssh(line === '' ? [] : [line], sshOptions),
    /** Runs git in a folder, with ssh and this key; rejects when it fails. */
    git: (cwd: string, ...args: string[]) => git(cwd, args, { GIT_SSH_COMMAND: command }),
    /** The same, for what may fail. */
    tryGit: (cwd: string, ...args: string[]) =>
      toEnded(git(cwd, args, { GIT_SSH_COMMAND: command })),
    /** The same, with options of ssh's. */
    gitWith: (sshOptions: string, cwd: string, ...args: string[]) =>
      toEnded(git(cwd, args, { GIT_SSH_COMMAND: `${command} ${sshOptions}` })),
    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  }
}

/** How an attempt to run git ended. */
export async function toEnded(attempt: ReturnType<typeof git>): Promise<Ended> {
  return attempt.then(
    (result) => ({ exitCode: 0, ...result }),
    // One that a signal ended, as SIGPIPE does when its server is gone, has no code.
    ({ code, stdout, stderr }) => ({ exitCode: Number(code ?? -1), stdout, stderr }),
  )
}

/** Runs a program, with nothing to read, to its end. */
export function run(program: string, args: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    // In other locales ssh shows as bytes what is not ASCII.
    const env = { ...process.env, LC_ALL: 'C.UTF-8' }
    const child = execFile(program, args, { timeout: 60_000, env }, (error, stdout, stderr) => {
      resolve({ exitCode: error ? Number(child.exitCode ?? -1) : 0, stdout, stderr })
    })
    child.stdin?.end()
  })
}
