import assert from 'node:assert/strict'
import { test } from 'node:test'
import { argumentFault, bubblewrapArguments, bubblewrapCommand } from './bubblewrap.ts'

const bubble = {
  hasOwnIpc: false,
  network: 'none',
  directory: '/workspaces/1',
  system: ['--ro-bind', '/usr', '/usr'],
  readOnlyPaths: ['/tools'],
  node: '/usr/lib/node',
  env: { TOKEN: 'secret' },
  cwd: '/workspace',
} as const
const tools = {
  sh: '/bin/sh',
  unshare: '/bin/unshare',
  mount: '/bin/mount',
  choom: '/bin/choom',
  setpriv: '/bin/setpriv',
  setsid: '/bin/setsid',
  prlimit: '/bin/prlimit',
  nsenter: '/bin/nsenter',
}
const start = { bwrap: '/bin/bwrap', limits: ['--core=0'], command: ['bash', '-e'] }

test('bubblewrap unshares everything, and shares the network only when configured', () => {
  const args = bubblewrapArguments(bubble)
  for (const name of ['user', 'pid', 'uts', 'cgroup-try', 'ipc', 'net']) {
    assert.ok(args.includes(`--unshare-${name}`), name)
  }
  for (const option of ['--disable-userns', '--unshare-pid']) assert.ok(args.includes(option))
  assert.ok(!bubblewrapArguments({ ...bubble, network: 'full' }).includes('--unshare-net'))
  assert.ok(!bubblewrapArguments({ ...bubble, hasOwnIpc: true }).includes('--unshare-ipc'))
})

test('only the directories of the workspace are writable', () => {
  const args = bubblewrapArguments(bubble)
  const writable = args.flatMap((arg, index) =>
    arg === '--bind' ? [`${args[index + 1]} ${args[index + 2]}`] : [],
  )
  assert.deepEqual(writable, [
    '/workspaces/1/shm /dev/shm',
    '/workspaces/1/workspace /workspace',
    '/workspaces/1/home /home/runner',
    '/workspaces/1/temp /tmp',
    '/workspaces/1/files /svc',
    '/workspaces/1/temp /var/tmp',
  ])
  assert.ok(!args.some((arg) => /^--(dev-)?bind-(try|data|fd)$|^--dev-bind/.test(arg)))
  const remounts = args.flatMap((arg, index) => (arg === '--remount-ro' ? [args[index + 1]] : []))
  assert.deepEqual(remounts, ['/dev', '/'])
})

test('the environment is passed by a pipe, not on the command line', () => {
  assert.match(bubblewrapArguments(bubble).join(' '), /--setenv TOKEN secret$/)
  const without = {
    ...{ move: undefined, user: undefined, namespaces: undefined, procsFile: undefined },
  }
  const command = bubblewrapCommand(tools, { ...start, ...without })
  assert.deepEqual(command.slice(0, 2), ['/bin/sh', '-c'])
  assert.equal(
    command.slice(4).join(' '),
    '/bin/choom -n 1000 -- /bin/setpriv --inh-caps=-all --no-new-privs --pdeathsig KILL -- ' +
      '/bin/bwrap --args 3 --json-status-fd 4 -- /bin/setsid /bin/prlimit --core=0 -- bash -e',
  )
})

test('as root, the workspace is mounted at another path and the user is changed before bubblewrap', () => {
  const move = { from: '/workspaces/1', to: '/mnt' }
  const command = bubblewrapCommand(tools, {
    ...start,
    move,
    user: 2_000_000_001,
    namespaces: undefined,
    procsFile: '/group/cgroup.procs',
  })
  assert.deepEqual(command.slice(0, 5), ['/bin/unshare', '--mount', '--ipc', '--', '/bin/sh'])
  assert.match(
    command.join(' '),
    / sh \/group\/cgroup\.procs \/bin\/mount \/workspaces\/1 \/mnt \/bin\/choom /,
  )
  assert.match(command.join(' '), /--reuid=2000000001 --regid=2000000001 --clear-groups/)
})

test('a network namespace is joined by its owner, and its descriptors are closed', () => {
  const root = { move: undefined, user: 2_000_000_001, procsFile: undefined }
  const asRoot = bubblewrapCommand(tools, {
    ...{ ...start, ...root },
    namespaces: { net: 6, user: undefined },
  })
  assert.deepEqual(asRoot.slice(0, 4), [
    ...['/bin/nsenter', '--net=/proc/self/fd/6', '--', '/bin/sh'],
  ])
  const asUser = bubblewrapCommand(tools, {
    ...{ ...start, ...root, user: undefined },
    namespaces: { net: 6, user: 7 },
  })
  assert.deepEqual(asUser.slice(1, 5), [
    ...['--net=/proc/self/fd/6', '--user=/proc/self/fd/7', '--preserve-credentials', '--'],
  ])
  for (const command of [asRoot, asUser]) assert.match(command.join(' '), /exec 5<&- 6<&- 7<&-;/)
  assert.ok(!bubblewrapArguments({ ...bubble, network: 'joined' }).includes('--unshare-net'))
})

test('an environment that cannot be passed is rejected', () => {
  assert.equal(argumentFault(['--setenv', 'A', 'b']), undefined)
  assert.match(argumentFault(['--setenv', 'A', 'b\0--bind\0/\0/']) ?? '', /NUL byte/)
  assert.match(argumentFault(Array(9001).fill('x')) ?? '', /too many variables/)
})
