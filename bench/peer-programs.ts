import { existsSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { say } from './output.ts'
import { run } from './program.ts'

const programs = { nginx: '/usr/sbin/nginx', fcgiwrap: '/usr/sbin/fcgiwrap' }
const install = ['install', '-y', 'nginx-light', 'fcgiwrap']
const servicePolicy = '/usr/sbin/policy-rc.d'

/** Where the programs of the peer are; installs Debian's packages if they are missing. */
export async function installPeer(): Promise<typeof programs> {
  if (Object.values(programs).every((path) => existsSync(path))) return programs
  const command = `apt-get ${install.join(' ')}`
  if (process.getuid?.() !== 0) {
    throw new Error(`svc is compared with programs that are missing; as root: ${command}`)
  }
  say(`Installing what svc is compared with: ${command}`)
  await using _quiet = await keepServicesDown()
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  // Without a signal: a package that is half installed would stand in the way of all others.
  await run('apt-get', ['update'], { env })
  await run('apt-get', install, { env })
  return programs
}

// The bench starts servers of its own; Debian's, which a package starts when it is installed, need not run.
async function keepServicesDown(): Promise<AsyncDisposable> {
  if (existsSync(servicePolicy)) return { [Symbol.asyncDispose]: () => Promise.resolve() }
  await writeFile(servicePolicy, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  return { [Symbol.asyncDispose]: () => rm(servicePolicy) }
}
