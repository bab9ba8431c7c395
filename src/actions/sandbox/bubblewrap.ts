import type { Duplex } from 'node:stream'
import { insideNode } from './mounts.ts'
import type { Folders } from './sandbox.ts'

/**
 * Starts the watchdog, a process in the same group that reads descriptor 5. When the runner closes its end, or dies for
 * any reason, the watchdog kills the group. It answers every line with the table of System V shared memory in its
 * namespace and an empty line.
 */
const watchdogScript =
  '(while read -r _; do while read -r line; do echo "$line"; done </proc/sysvipc/shm; echo; done; kill -9 0)' +
  ' <&5 >&5 2>/dev/null 3<&- 4<&- 5<&- 6<&- 7<&- & exec 5<&- 6<&- 7<&-; '

/** The runner's end of a watchdog. */
type Watchdog = {
  /** Bytes of System V shared memory as last reported; requests a new report. */
  sharedBytes: () => number
  /** Kills the group, and waits until the watchdog has ended. */
  end: () => Promise<void>
}

/** 4096 segments with a line each. */
const maxReportLength = 4096 * 250

/** Takes the runner's end of descriptor 5. */
export function toWatchdog(pipe: Duplex): Watchdog {
  let text = ''
  let bytes = 0
  let isRequested = false
  const closed = new Promise<void>((resolve) => pipe.on('close', resolve))
  pipe.on('error', () => {})
  pipe.setEncoding('latin1').on('data', (chunk: string) => {
    text = (text + chunk).slice(-maxReportLength)
    if (!/(^|\n)\n$/.test(text)) return
    bytes = sumOf(text)
    text = ''
    isRequested = false
  })
  return {
    sharedBytes() {
      if (!isRequested && !pipe.writableEnded) pipe.write('\n')
      isRequested = true
      return bytes
    },
    end() {
      pipe.end()
      return closed
    },
  }
}

// sysvipc(7): a header, then a line per segment that ends with its bytes in memory and in swap.
function sumOf(table: string): number {
  return table
    .split('\n')
    .slice(1)
    .flatMap((line) => line.trim().split(/ +/).slice(14, 16))
    .reduce((all, number) => all + Number(number), 0)
}

/** The directories of the workspace as steps see them. */
export const insideFolders: Folders = {
  workspace: '/workspace',
  home: '/home/runner',
  temp: '/tmp',
  files: '/svc',
}

/** The only user inside; outside it has another id. */
const runnerId = 1001

type BubblewrapOptions = {
  /** Whether the IPC namespace is already unshared. */
  hasOwnIpc: boolean
  /** `joined`: bubblewrap already runs in a network namespace. */
  network: 'none' | 'joined' | 'full'
  /** The directory of the workspace as bubblewrap sees it when it starts. */
  directory: string
  /** Arguments from `systemMounts` and `hidingMounts`. */
  system: readonly string[]
  readOnlyPaths: readonly string[]
  /** The Node.js of the runner, which steps see at `insideNode`. */
  node: string | undefined
  env: Record<string, string>
  cwd: string
}

/** Arguments that bubblewrap reads from a pipe (bwrap(1), `--args`): other users can read its command line. */
export function bubblewrapArguments(options: BubblewrapOptions): string[] {
  const { hasOwnIpc, network, directory, system, readOnlyPaths, node, env, cwd } = options
  return [
    // Not --unshare-all, which tolerates a missing user namespace.
    ...['--unshare-user', '--disable-userns', '--unshare-pid', '--unshare-uts'],
    ...['--unshare-cgroup-try', ...(hasOwnIpc ? [] : ['--unshare-ipc'])],
    ...(network === 'none' ? ['--unshare-net'] : []),
    ...['--uid', `${runnerId}`, '--gid', `${runnerId}`, '--hostname', 'svc'],
    // Not --new-session: bubblewrap stays in the process group that the watchdog kills. setsid makes a session inside.
    ...['--die-with-parent', '--cap-drop', 'ALL'],
    ...['/etc', '/home', '/var'].flatMap((path) => ['--perms', '0755', '--dir', path]),
    ...system,
    ...Object.keys(etcFiles).flatMap((name) => [
      '--ro-bind',
      `${directory}/etc/${name}`,
      `/etc/${name}`,
    ]),
    ...(network === 'full' ? ['--ro-bind-try', '/etc/hosts', '/etc/hosts'] : []),
    ...['--proc', '/proc', '--dev', '/dev'],
    // On disk, because memory of a tmpfs is not counted for any process.
    ...['--bind', `${directory}/shm`, '/dev/shm', '--remount-ro', '/dev'],
    ...Object.entries(insideFolders).flatMap(([name, inside]) => [
      '--bind',
      `${directory}/${name}`,
      inside,
    ]),
    ...['--bind', `${directory}/temp`, '/var/tmp'],
    ...readOnlyPaths.flatMap((path) => ['--ro-bind', path, path]),
    ...(node === undefined ? [] : ['--ro-bind', node, insideNode]),
    ...['--remount-ro', '/', '--chdir', cwd],
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
  ]
}

/** Files that replace those of the machine in /etc. */
export const etcFiles = {
  passwd: `runner:x:${runnerId}:${runnerId}:runner:${insideFolders.home}:/bin/bash\n`,
  group: `runner:x:${runnerId}:\n`,
  hosts: '127.0.0.1 localhost svc\n::1 localhost ip6-localhost\n',
}

// The limit of bubblewrap 0.8 (bubblewrap.c, MAX_ARGS). Arguments besides the environment are a few hundred.
const maxArguments = 9000

/** Why bubblewrap cannot take these arguments, or undefined. */
export function argumentFault(args: readonly string[]): string | undefined {
  if (args.some((arg) => arg.includes('\0'))) {
    return 'An environment variable contains a NUL byte.'
  }
  if (args.length > maxArguments) {
    return `The environment has too many variables; the limit is about ${Math.floor(maxArguments / 3) - 100}.`
  }
  return undefined
}

/** The chain of programs that ends in bubblewrap; each execs the next. The first starts the watchdog. */
export function bubblewrapCommand(
  tools: {
    sh: string
    unshare: string
    mount: string
    choom: string
    setpriv: string
    setsid: string
    prlimit: string
    nsenter: string
  },
  options: {
    bwrap: string
    /** Where to bind the workspace, for a user who may not search the directories above it. */
    move: { from: string; to: string } | undefined
    user: number | undefined
    /** The descriptors, in this chain, of the namespaces to join. */
    namespaces: { net: number; user: number | undefined } | undefined
    /** The `cgroup.procs` of the control group to join. */
    procsFile: string | undefined
    limits: readonly string[]
    command: readonly string[]
  },
): [string, ...string[]] {
  const { bwrap, move, user, namespaces, procsFile, limits, command } = options
  const mountScript =
    'mount=$1 from=$2 to=$3; shift 3; "$mount" -n --bind -- "$from" "$to" && exec env -i "$@"'
  // After the start of the watchdog, which must not be killed with the control group.
  const join = procsFile === undefined ? '' : 'echo 0 >"$1" || exit; shift; '
  const shell = (script: string) => [
    ...[tools.sh, '-c', watchdogScript + join + script, 'sh'],
    ...(procsFile === undefined ? [] : [procsFile]),
  ]
  const withWatchdog = move
    ? [
        ...[tools.unshare, '--mount', '--ipc', '--'],
        ...shell(mountScript),
        ...[tools.mount, move.from, move.to],
      ]
    : shell('exec env -i "$@"')
  const identity =
    user === undefined ? [] : [`--reuid=${user}`, `--regid=${user}`, '--clear-groups']
  const joining = namespaces ? joinNamespaces(tools.nsenter, namespaces) : []
  const [first = tools.sh, ...rest] = [...joining, ...withWatchdog]
  return [
    first,
    ...rest,
    // When memory is short, the kernel should kill a step, not the runner: proc(5), oom_score_adj.
    ...[tools.choom, '-n', '1000', '--'],
    // Without capabilities that a server may have for low ports: bubblewrap refuses to start with any.
    ...[tools.setpriv, ...identity, '--inh-caps=-all'],
    ...['--no-new-privs', '--pdeathsig', 'KILL', '--'],
    ...[bwrap, '--args', '3', '--json-status-fd', '4', '--'],
    // Inside the user namespace, so that only processes of this workspace count.
    ...[tools.setsid, tools.prlimit, ...limits, '--', ...command],
  ]
}

// As the runner's user, who owns the namespace. The shell that follows closes the descriptors.
function joinNamespaces(
  nsenter: string,
  { net, user }: { net: number; user: number | undefined },
): string[] {
  return [
    ...[nsenter, `--net=/proc/self/fd/${net}`],
    ...(user === undefined ? [] : [`--user=/proc/self/fd/${user}`, '--preserve-credentials']),
    '--',
  ]
}
