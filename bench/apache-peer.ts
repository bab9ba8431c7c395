import { chmod, mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../test/support/free-port.ts'
import { createEnclosure } from './enclosure.ts'
import { untilListening } from './listening.ts'
import { start } from './program.ts'
import type { Workspace } from './workspace.ts'

const modulesFolder = '/usr/lib/apache2/modules'
const loaded = ['mpm_event', 'authz_core', 'alias', 'env', 'setenvif', 'cgid']

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
  // Apache does not serve as root, so its user needs access to the files of others.
  await chmod(workspace.folder, 0o711)
  const { output: gitPrograms } = await workspace.git(['--exec-path'])
  await writeFile(config, apacheConfig({ folder, repositories, port, gitPrograms, env }))
  const { prefix, cpuMs } = starting.use(createEnclosure())
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

type Places = {
  folder: string
  repositories: string
  port: number
  gitPrograms: string
  env: NodeJS.ProcessEnv
}

function apacheConfig({ folder, repositories, port, gitPrograms, env }: Places): string {
  const forGit = Object.entries({ ...env, ...ofAnyOwner })
  const user = process.getuid?.() === 0 ? 'User www-data\nGroup www-data\n' : ''
  return `${loaded.map((name) => `LoadModule ${name}_module ${modulesFolder}/mod_${name}.so\n`).join('')}
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
