import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../test/support/free-port.ts'
import { confineServer, serverCoreCount } from './isolation.ts'
import { run, start, untilListening } from './processes.ts'
import type { Workspace } from './workspace.ts'

type Programs = { nginx: string; fcgiwrap: string; cgit: string; gitweb: string }

type Options = {
  programs: Programs
  /** The repository that cgit and gitweb show, as `history.git`. */
  repository: string
  /** The port of svc. */
  svcPort: number
}

const fcgiwrapProcesses = 8

/** One nginx before cgit, gitweb and svc, each on its own loopback port. */
export async function startBrowsePeers(
  workspace: Workspace,
  { programs, repository, svcPort }: Options,
) {
  const { signal } = workspace
  await using starting = new AsyncDisposableStack()
  const folder = await mkdtemp(join(workspace.folder, 'browse-peers-'))
  const socket = join(folder, 'fcgiwrap.socket')
  const ports = { cgit: await freePort(), gitweb: await freePort(), svc: await freePort() }
  const files = {
    nginx: join(folder, 'nginx.conf'),
    cgit: join(folder, 'cgitrc'),
    gitweb: join(folder, 'gitweb.conf'),
  }
  await run('ln', ['-s', repository, join(folder, 'history.git')], {})
  await writeFile(files.cgit, cgitConfig(join(folder, 'history.git')))
  await writeFile(files.gitweb, gitwebConfig(folder))
  await writeFile(files.nginx, nginxConfig({ folder, socket, files, ports, svcPort, programs }))
  const { prefix } = starting.use(confineServer())
  const launch = (...words: string[]) =>
    starting.use(start([...prefix, ...words], { ...workspace.env, HOME: folder }))
  const wrapper = ['-c', String(fcgiwrapProcesses), '-s', `unix:${socket}`]
  const fcgiwrap = launch(programs.fcgiwrap, ...wrapper)
  const nginx = launch(programs.nginx, '-p', folder, '-c', files.nginx, '-e', 'stderr')
  const addresses = Object.values(ports).map((port) => ({ host: '127.0.0.1', port }))
  const listening = untilListening([{ path: socket }, ...addresses], signal)
  await Promise.race([listening, fcgiwrap.failed, nginx.failed])

  const running = starting.move()
  const urlOf = (port: number) => `http://127.0.0.1:${port}`
  return {
    svc: urlOf(ports.svc),
    cgit: urlOf(ports.cgit),
    gitweb: urlOf(ports.gitweb),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

// Without its cache: cgitrc(5).
function cgitConfig(repository: string): string {
  return `cache-size=0
enable-blame=1
virtual-root=/
repo.url=history
repo.path=${repository}
`
}

// gitweb.conf(5)
function gitwebConfig(folder: string): string {
  return `$projectroot = "${folder}";
$git_temp = "${folder}";
$feature{'blame'}{'default'} = [1];
$feature{'grep'}{'default'} = [1];
$maxload = undef;
1;
`
}

type NginxOptions = Pick<Options, 'programs' | 'svcPort'> & {
  folder: string
  socket: string
  files: { cgit: string; gitweb: string }
  ports: { cgit: number; gitweb: number; svc: number }
}

function nginxConfig({ folder, socket, files, ports, svcPort, programs }: NginxOptions): string {
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  const cgi = `
      fastcgi_read_timeout 600s;
      fastcgi_pass unix:${socket};
      fastcgi_param PATH_INFO $uri;
      fastcgi_param QUERY_STRING $query_string;
      fastcgi_param REQUEST_METHOD $request_method;
      fastcgi_param SERVER_NAME $server_name;
      fastcgi_param SERVER_PORT $server_port;
      fastcgi_param SERVER_PROTOCOL $server_protocol;
      fastcgi_param HTTP_HOST $http_host;`
  return `${user}
daemon off;
worker_processes ${serverCoreCount};
pid ${folder}/nginx.pid;
error_log stderr crit;
events { worker_connections 512; }
http {
  access_log off;
  gzip off;
  tcp_nodelay on;
  keepalive_requests 1000000;
  client_max_body_size 0;
  client_body_temp_path ${folder}/bodies;
  fastcgi_temp_path ${folder}/answers;
  proxy_temp_path ${folder}/proxied;
  scgi_temp_path ${folder}/unused;
  uwsgi_temp_path ${folder}/unused;
  upstream svc {
    server 127.0.0.1:${svcPort};
    keepalive 16;
  }
  server {
    listen 127.0.0.1:${ports.svc};
    location / {
      proxy_pass http://svc;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
    }
  }
  server {
    listen 127.0.0.1:${ports.cgit};
    location / {${cgi}
      fastcgi_param CGIT_CONFIG ${files.cgit};
      fastcgi_param SCRIPT_FILENAME ${programs.cgit};
      fastcgi_param SCRIPT_NAME "";
    }
  }
  server {
    listen 127.0.0.1:${ports.gitweb};
    location / {${cgi}
      fastcgi_param GITWEB_CONFIG ${files.gitweb};
      fastcgi_param SCRIPT_FILENAME ${programs.gitweb};
      fastcgi_param SCRIPT_NAME "";
    }
  }
}
`
}
