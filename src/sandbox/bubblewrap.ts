import type { Folders } from './sandbox.ts'
import { watchdogScript } from './watchdog.ts'

/** Where steps find the folders of their room. */
export const insideFolders: Folders = {
  workspace: '/workspace',
  home: '/home/runner',
  temp: '/tmp',
  files: '/svc',
}

/** The one user that there is inside; its number outside is another. */
const runnerId = 1001

type Bubble = {
  /** Whether the namespace of System V's memory and queues is another already. */
  hasOwnIpc: boolean
  network: 'none' | 'full'
  /** The folder of the room as bubblewrap sees it when it starts. */
  room: string
  /** What systemMounts and hidingMounts gave. */
  system: readonly string[]
  readOnlyPaths: readonly string[]
  env: Record<string, string>
  cwd: string
}

/**
 * What bubblewrap is told by a pipe: bwrap(1), `--args`. Everything is here, for its environment and its
 * command line can be read by others, and what is here cannot.
 */
export function bubblewrapArguments(bubble: Bubble): string[] {
  const { hasOwnIpc, network, room, system, readOnlyPaths, env, cwd } = bubble
  return [
    // --unshare-all would do without a user namespace, and without one for control groups.
    ...['--unshare-user', '--disable-userns', '--unshare-pid', '--unshare-uts'],
    ...['--unshare-cgroup-try', ...(hasOwnIpc ? [] : ['--unshare-ipc'])],
    ...(network === 'full' ? [] : ['--unshare-net']),
    ...['--uid', `${runnerId}`, '--gid', `${runnerId}`, '--hostname', 'svc'],
    // Without --new-session: bubblewrap stays in the group that the guard ends. The step gets a session inside.
    ...['--die-with-parent', '--cap-drop', 'ALL'],
    ...['/etc', '/home', '/var'].flatMap((path) => ['--perms', '0755', '--dir', path]),
    ...system,
    ...Object.keys(etcFiles).flatMap((name) => [
      '--ro-bind',
      `${room}/etc/${name}`,
      `/etc/${name}`,
    ]),
    ...(network === 'full' ? ['--ro-bind-try', '/etc/hosts', '/etc/hosts'] : []),
    ...['--proc', '/proc', '--dev', '/dev'],
    // On the disk, as memory that belongs to no process is counted by nobody.
    ...['--bind', `${room}/shm`, '/dev/shm', '--remount-ro', '/dev'],
    ...Object.entries(insideFolders).flatMap(([name, inside]) => [
      '--bind',
      `${room}/${name}`,
      inside,
    ]),
    ...['--bind', `${room}/temp`, '/var/tmp'],
    ...readOnlyPaths.flatMap((path) => ['--ro-bind', path, path]),
    ...['--remount-ro', '/', '--chdir', cwd],
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
  ]
}

/** What a room has in place of the machine's files of the same names in /etc. */
export const etcFiles = {
  passwd: `runner:x:${runnerId}:${runnerId}:runner:${insideFolders.home}:/bin/bash\n`,
  group: `runner:x:${runnerId}:\n`,
  hosts: '127.0.0.1 localhost svc\n::1 localhost ip6-localhost\n',
}

// bubblewrap 0.8 takes no more (bubblewrap.c, MAX_ARGS); what is not of the environment needs some hundreds.
const argumentsMax = 9000

/** Why bubblewrap could not take these arguments; undefined when it can. */
export function argumentFault(args: readonly string[]): string | undefined {
  if (args.some((arg) => arg.includes('\0'))) {
    return 'A variable of the environment has a NUL byte, which no program can be given.'
  }
  if (args.length > argumentsMax) {
    return `The environment has too many variables: there can be some ${Math.floor(argumentsMax / 3) - 100}.`
  }
  return undefined
}

/** The programs between the runner and bubblewrap, each of which becomes the next. The first leaves a guard behind. */
export function bubblewrapCommand(
  tools: {
    sh: string
    unshare: string
    mount: string
    choom: string
    setpriv: string
    setsid: string
    prlimit: string
  },
  options: {
    bwrap: string
    /** The folder of the room and the empty place at which bubblewrap is to see it, as somebody who may not pass the folders above. */
    move: { from: string; to: string } | undefined
    user: number | undefined
    /** The file by which to join a control group. */
    procsFile: string | undefined
    limits: readonly string[]
    command: readonly string[]
  },
): [string, ...string[]] {
  const { bwrap, move, user, procsFile, limits, command } = options
  const mountAndGo =
    'mount=$1 from=$2 to=$3; shift 3; "$mount" -n --bind -- "$from" "$to" && exec env -i "$@"'
  // After the guard, which must not be ended with the group.
  const join = procsFile === undefined ? '' : 'echo 0 >"$1" || exit; shift; '
  const shell = (script: string) => [
    ...[tools.sh, '-c', watchdogScript + join + script, 'sh'],
    ...(procsFile === undefined ? [] : [procsFile]),
  ]
  const guarded = move
    ? [
        ...[tools.unshare, '--mount', '--ipc', '--'],
        ...shell(mountAndGo),
        ...[tools.mount, move.from, move.to],
      ]
    : shell('exec env -i "$@"')
  const identity =
    user === undefined ? [] : [`--reuid=${user}`, `--regid=${user}`, '--clear-groups']
  // When memory is short, the kernel is to end a step, not the runner: proc(5), oom_score_adj.
  const [first = tools.sh, ...rest] = guarded
  return [
    first,
    ...rest,
    ...[tools.choom, '-n', '1000', '--'],
    ...[tools.setpriv, ...identity, '--no-new-privs', '--pdeathsig', 'KILL', '--'],
    ...[bwrap, '--args', '3', '--json-status-fd', '4', '--'],
    // Inside, so that only the processes of this room count.
    ...[tools.setsid, tools.prlimit, ...limits, '--', ...command],
  ]
}
