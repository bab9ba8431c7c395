import { existsSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { say } from './output.ts'
import { run } from './program.ts'

const peers = {
  http: {
    programs: { nginx: '/usr/sbin/nginx', fcgiwrap: '/usr/sbin/fcgiwrap' },
    packages: ['nginx-light', 'fcgiwrap'],
  },
  apache: { programs: { apache2: '/usr/sbin/apache2' }, packages: ['apache2-bin'] },
  ssh: { programs: { sshd: '/usr/sbin/sshd' }, packages: ['openssh-server', 'openssh-client'] },
}
const servicePolicy = '/usr/sbin/policy-rc.d'

type Peers = typeof peers

/** Finds the programs of a peer; installs Debian's packages if they are missing. */
export async function installPeer<Name extends keyof Peers>(
  name: Name,
): Promise<Peers[Name]['programs']> {
  const { programs, packages } = peers[name]
  if (Object.values(programs).every((path) => existsSync(path))) return programs
  const install = ['install', '-y', '--no-install-recommends', ...packages]
  const command = `apt-get ${install.join(' ')}`
  if (process.getuid?.() !== 0) {
    throw new Error(`Programs for the comparison are missing; install them as root: ${command}`)
  }
  say(`Installing what svc is compared with: ${command}`)
  await using _quiet = await keepServicesDown()
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  // Without a signal: a half-installed package would block all others.
  await run('apt-get', ['update'], { env })
  await run('apt-get', install, { env })
  return programs
}

// The benchmark starts its own servers; those that Debian's packages start are not needed.
async function keepServicesDown(): Promise<AsyncDisposable> {
  if (existsSync(servicePolicy)) return { [Symbol.asyncDispose]: () => Promise.resolve() }
  await writeFile(servicePolicy, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  return { [Symbol.asyncDispose]: () => rm(servicePolicy) }
}
