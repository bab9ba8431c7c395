import { existsSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ObjectFormat } from '#base/object-id.ts'
import { freePort } from '../test/support/free-port.ts'
import { confineServer, serverCoreCount } from './isolation.ts'
import { print } from './print.ts'
import { run, start, untilListening } from './processes.ts'
import type { Target } from './wire-client.ts'
import type { Workspace } from './workspace.ts'

/** Creates and removes repositories of a Git server. */
export type Host = {
  /** Creates an empty repository, and returns its address with credentials. */
  create: (name: string, objectFormat?: ObjectFormat) => Promise<string>
  /** Creates a repository with all refs of a local one, and returns its address. */
  copy: (name: string, source: string) => Promise<string>
  remove: (name: string) => Promise<unknown>
}

const fcgiwrapProcesses = 8

/**
 * `git http-backend` behind Debian's nginx with fcgiwrap (git-http-backend(1), "nginx"), on its
 * own loopback port.
 */
export async function startHttpPeer(
  workspace: Workspace,
  programs: { nginx: string; fcgiwrap: string },
) {
  const { signal } = workspace
  await using starting = new AsyncDisposableStack()
  // A run of all parts starts more than one.
  const folder = await mkdtemp(join(workspace.folder, 'http-peer-'))
  const socket = join(folder, 'fcgiwrap.socket')
  const config = join(folder, 'nginx.conf')
  const port = await freePort()
  const { output: gitPrograms } = await workspace.git(['--exec-path'])
  await writeFile(config, nginxConfig({ folder, socket, port, gitPrograms }))
  const { env } = workspace
  const { prefix, cpuMs } = starting.use(confineServer())
  const launch = (...words: string[]) => starting.use(start([...prefix, ...words], env))
  const fcgiwrap = launch(
    programs.fcgiwrap,
    '-c',
    String(fcgiwrapProcesses),
    '-s',
    `unix:${socket}`,
  )
  const nginx = launch(programs.nginx, '-p', folder, '-c', config, '-e', 'stderr')
  const listening = untilListening([{ path: socket }, { host: '127.0.0.1', port }], signal)
  await Promise.race([listening, fcgiwrap.failed, nginx.failed])

  const running = starting.move()
  return {
    ...bareHosts({
      workspace,
      folder,
      address: `http://127.0.0.1:${port}`,
      config: { 'http.receivepack': 'true' },
    }),
    /** The folder of all its repositories. */
    folder,
    /** A repository of the durable host, for requests by the wire client. */
    target: (name: string): Target => ({
      url: `http://127.0.0.1:${port}/durable/${name}.git`,
      cpuMs,
    }),
    pids: [nginx.pid, fcgiwrap.pid],
    cpuMs,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

type NginxOptions = { folder: string; socket: string; port: number; gitPrograms: string }

// Unbuffered: by default nginx copies each push to a file before it reaches git, which is slower.
function nginxConfig({ folder, socket, port, gitPrograms }: NginxOptions): string {
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  return `${user}
daemon off;
worker_processes ${serverCoreCount};
pid ${folder}/nginx.pid;
error_log stderr warn;
events { worker_connections 512; }
http {
  access_log off;
  gzip off;
  tcp_nodelay on;
  keepalive_requests 1000000;
  client_max_body_size 0;
  client_body_temp_path ${folder}/bodies;
  fastcgi_temp_path ${folder}/answers;
  proxy_temp_path ${folder}/unused;
  scgi_temp_path ${folder}/unused;
  uwsgi_temp_path ${folder}/unused;
  server {
    listen 127.0.0.1:${port};
    location / {
      fastcgi_request_buffering off;
      fastcgi_buffering off;
      fastcgi_read_timeout 600s;
      fastcgi_pass unix:${socket};
      fastcgi_param SCRIPT_FILENAME ${gitPrograms}/git-http-backend;
      fastcgi_param GIT_PROJECT_ROOT ${folder};
      fastcgi_param GIT_HTTP_EXPORT_ALL "";
      fastcgi_param GIT_PROTOCOL $http_git_protocol;
      fastcgi_param PATH_INFO $uri;
      fastcgi_param QUERY_STRING $query_string;
      fastcgi_param REQUEST_METHOD $request_method;
      fastcgi_param CONTENT_TYPE $content_type;
      fastcgi_param CONTENT_LENGTH $content_length;
      fastcgi_param REMOTE_ADDR $remote_addr;
    }
  }
}
`
}

const apacheModulesFolder = '/usr/lib/apache2/modules'
const apacheModules = ['mpm_event', 'authz_core', 'alias', 'env', 'setenvif', 'cgid']

/**
 * `git http-backend` as a CGI of Debian's Apache (git-http-backend(1), "Apache 2.x"), on its own loopback port,
 * for the repositories of another peer.
 */
export async function startApachePeer(
  workspace: Workspace,
  { apache2, repositories }: { apache2: string; repositories: string },
) {
  const { env, signal } = workspace
  await using starting = new AsyncDisposableStack()
  // A run of all parts starts more than one.
  const folder = await mkdtemp(join(workspace.folder, 'apache-peer-'))
  const config = join(folder, 'apache.conf')
  const port = await freePort()
  // Apache does not serve as root, so its user needs access to these folders.
  for (const path of [workspace.folder, folder, repositories]) await chmod(path, 0o711)
  const { output: gitPrograms } = await workspace.git(['--exec-path'])
  await writeFile(config, apacheConfig({ folder, repositories, port, gitPrograms, env }))
  const { prefix, cpuMs } = starting.use(confineServer())
  const words = [...prefix, apache2, '-D', 'FOREGROUND', '-d', folder, '-f', config]
  const server = starting.use(start(words, env))
  await Promise.race([untilListening([{ host: '127.0.0.1', port }], signal), server.failed])

  const running = starting.move()
  return {
    url: `http://127.0.0.1:${port}`,
    cpuMs,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

// As `git -c safe.directory=*`: the repositories belong to the user of the bench.
const ofAnyOwner = {
  GIT_CONFIG_COUNT: '1',
  GIT_CONFIG_KEY_0: 'safe.directory',
  GIT_CONFIG_VALUE_0: '*',
}

type ApacheOptions = {
  folder: string
  repositories: string
  port: number
  gitPrograms: string
  env: NodeJS.ProcessEnv
}

function apacheConfig({ folder, repositories, port, gitPrograms, env }: ApacheOptions): string {
  const forGit = Object.entries({ ...env, ...ofAnyOwner })
  const user = process.getuid?.() === 0 ? 'User www-data\nGroup www-data\n' : ''
  return `${apacheModules.map((name) => `LoadModule ${name}_module ${apacheModulesFolder}/mod_${name}.so\n`).join('')}
ServerName 127.0.0.1
Listen 127.0.0.1:${port}
${user}PidFile ${folder}/apache.pid
ScriptSock ${folder}/cgid
DefaultRuntimeDir ${folder}
ErrorLog ${folder}/error.log
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 600
Timeout 600
${forGit.map(([name, value]) => `SetEnv ${name} "${value}"\n`).join('')}SetEnv GIT_PROJECT_ROOT ${repositories}
SetEnv GIT_HTTP_EXPORT_ALL
SetEnvIf Git-Protocol ".+" GIT_PROTOCOL=$0
ScriptAlias / ${gitPrograms}/git-http-backend/
<Directory "${gitPrograms}">
  Require all granted
</Directory>
`
}

/** `git daemon`, on its own loopback port, for the repositories of another peer. */
export async function startDaemonPeer(workspace: Workspace, repositories: string) {
  await using starting = new AsyncDisposableStack()
  const port = await freePort()
  const { prefix, cpuMs } = starting.use(confineServer())
  const options = [
    '--listen=127.0.0.1',
    `--port=${port}`,
    `--base-path=${repositories}`,
    '--max-connections=0',
  ]
  const words = [...prefix, 'git', 'daemon', '--export-all', '--reuseaddr', ...options]
  const server = starting.use(start(words, workspace.env))
  const listening = untilListening([{ host: '127.0.0.1', port }], workspace.signal)
  await Promise.race([listening, server.failed])

  const running = starting.move()
  return {
    url: `git://127.0.0.1:${port}`,
    cpuMs,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

// The guarantees of svc as git settings: pushes are durable and checked before they are acknowledged, and no
// request waits for maintenance.
const asDurableAsSvc = {
  'core.fsync': 'all',
  'receive.unpackLimit': '1',
  'transfer.fsckObjects': 'true',
  'receive.autogc': 'false',
}

type BareOptions = {
  workspace: Workspace
  /** Folder of all repositories. */
  folder: string
  /** The address of that folder at the peer. */
  address: string
  config?: Record<string, string>
}

/** The two hosts of a peer: one with repositories as durable as those of svc, one with git's defaults. */
export function bareHosts(options: BareOptions): { durable: Host; defaults: Host } {
  const { config = {} } = options
  return {
    durable: bareHost({ ...options, config: { ...config, ...asDurableAsSvc } }, 'durable'),
    defaults: bareHost(options, 'defaults'),
  }
}

function bareHost({ workspace, folder, address, config = {} }: BareOptions, kind: string): Host {
  const pathOf = (name: string) => join(folder, kind, `${name}.git`)
  /** Creates a repository with git. */
  async function make(name: string, command: string[]) {
    const path = pathOf(name)
    await workspace.git([...command, path])
    for (const [key, value] of Object.entries(config)) {
      await workspace.git(['-C', path, 'config', key, value])
    }
    return `${address}/${kind}/${name}.git`
  }
  return {
    create: (name, objectFormat = 'sha1') =>
      make(name, [
        ...['init', '--quiet', '--bare', '--initial-branch=main'],
        `--object-format=${objectFormat}`,
      ]),
    // Unlike a fetch, a clone writes all refs into one file.
    copy: (name, source) => make(name, ['clone', '--quiet', '--mirror', '--no-hardlinks', source]),
    remove: (name) => rm(pathOf(name), { recursive: true }),
  }
}

const peers = {
  http: {
    programs: { nginx: '/usr/sbin/nginx', fcgiwrap: '/usr/sbin/fcgiwrap' },
    packages: ['nginx-light', 'fcgiwrap'],
  },
  browse: {
    programs: {
      nginx: '/usr/sbin/nginx',
      fcgiwrap: '/usr/sbin/fcgiwrap',
      cgit: '/usr/lib/cgit/cgit.cgi',
      gitweb: '/usr/share/gitweb/gitweb.cgi',
    },
    packages: ['nginx-light', 'fcgiwrap', 'cgit', 'gitweb'],
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
  print(`Installing programs for the comparison: ${command}`)
  await using _quiet = await keepServicesDown()
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  // Without a signal: a half-installed package would block all others.
  await run('apt-get', ['update'], { env })
  await run('apt-get', install, { env })
  return programs
}

// The bench starts its own servers; those that Debian's packages start are not needed.
async function keepServicesDown(): Promise<AsyncDisposable> {
  if (existsSync(servicePolicy)) return { [Symbol.asyncDispose]: () => Promise.resolve() }
  await writeFile(servicePolicy, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  return { [Symbol.asyncDispose]: () => rm(servicePolicy) }
}
