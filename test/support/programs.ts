import { existsSync, readdirSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

type Program = { find: () => string | undefined; install: string }

/** Programs that some tests need, besides git. */
export const programs = {
  postgres: { find: findPostgres, install: 'apt-get install postgresql' },
  ceph: { find: findCeph, install: 'apt-get install ceph-mon ceph-osd radosgw' },
  openssh: { find: findOpenSsh, install: 'apt-get install openssh-client' },
  'openssh-10': { find: findDebian13, install: 'scripts/debian-13.sh' },
  'git-2.47': { find: findDebian13, install: 'scripts/debian-13.sh' },
  'git-lfs': { find: () => onPath('git-lfs'), install: 'apt-get install git-lfs' },
  make: { find: () => onPath('make'), install: 'apt-get install make' },
  openssl: { find: () => onPath('openssl'), install: 'apt-get install openssl' },
  python: { find: () => onPath('python3'), install: 'apt-get install python3' },
  curl: { find: () => onPath('curl'), install: 'apt-get install curl' },
  pygit2: { find: findPygit2, install: 'apt-get install python3-pygit2' },
  strace: { find: () => onPath('strace'), install: 'apt-get install strace' },
  bubblewrap: { find: () => onPath('bwrap'), install: 'apt-get install bubblewrap' },
  faketime: { find: findFaketime, install: 'apt-get install libfaketime' },
  systemd: { find: findSystemd, install: 'apt-get install systemd' },
  dbus: { find: () => onPath('dbus-daemon'), install: 'apt-get install dbus' },
  nginx: { find: () => inSbin('nginx'), install: 'apt-get install nginx-light' },
  haproxy: { find: () => inSbin('haproxy'), install: 'apt-get install haproxy' },
  caddy: { find: () => onPath('caddy'), install: 'apt-get install caddy' },
  mandoc: { find: () => onPath('mandoc'), install: 'apt-get install mandoc' },
  zsh: { find: () => onPath('zsh'), install: 'apt-get install zsh' },
  fish: { find: () => onPath('fish'), install: 'apt-get install fish' },
  chromium: { find: () => onPath('chromium'), install: 'apt-get install chromium' },
} satisfies Record<string, Program>

export type ProgramName = keyof typeof programs

export const mayNotSkip = process.env.SVC_TEST_REQUIRE === 'all'

/** For a test's `skip`: a reason when a program is missing, false when it is there or nothing may be skipped. */
export function without(name: ProgramName): string | false {
  return !mayNotSkip && programs[name].find() === undefined && `needs ${name}`
}

/** Programs that are missing, with the commands that install them. */
export function missingPrograms(): { name: string; install: string }[] {
  return Object.entries<Program>(programs)
    .filter(([, { find }]) => find() === undefined)
    .map(([name, { install }]) => ({ name, install }))
}

// Debian keeps the server's own programs off the PATH, in a folder for each version.
function findPostgres(): string | undefined {
  const root = '/usr/lib/postgresql'
  const versions = existsSync(root) ? readdirSync(root).sort() : []
  const folders = versions.map((version) => join(root, version, 'bin'))
  return folders.reverse().find((folder) => existsSync(join(folder, 'initdb')))
}

function findFaketime(): string | undefined {
  const folders = existsSync('/usr/lib') ? readdirSync('/usr/lib') : []
  const paths = folders.map((folder) => `/usr/lib/${folder}/faketime/libfaketime.so.1`)
  return paths.find(existsSync)
}

function findCeph(): string | undefined {
  const found = ['ceph-mon', 'ceph-osd', 'radosgw'].map(onPath)
  return found.every((path) => path !== undefined) ? found[0] : undefined
}

// Debian's package is for Debian's Python, which need not be the first on the PATH.
function findPygit2(): string | undefined {
  const isInstalled = existsSync('/usr/lib/python3/dist-packages/pygit2')
  return isInstalled ? '/usr/bin/python3' : undefined
}

function findOpenSsh(): string | undefined {
  const path = onPath('ssh')
  return path && dirname(path)
}

// Programs of Debian 13, which no older machine has; they are unpacked, not installed.
function findDebian13(): string | undefined {
  const folder = fileURLToPath(new URL('../../.cache/debian-13/bin', import.meta.url))
  return existsSync(folder) ? folder : undefined
}

function findSystemd(): string | undefined {
  const path = '/lib/systemd/systemd'
  return existsSync(path) ? onPath('systemd-analyze') && path : undefined
}

// Debian keeps servers off the PATH of ordinary users.
function inSbin(name: string): string | undefined {
  return onPath(name) ?? [`/usr/sbin/${name}`].find(existsSync)
}

function onPath(name: string): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter)
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path))
}
