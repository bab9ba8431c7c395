import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { operations } from '#cli/operations/client-operations.ts'
import { type ClientHome, loggedIn } from '../support/client-home.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { without } from '../support/programs.ts'
import { launcher, type Service, startService } from '../support/service.ts'

const execute = promisify(execFile)
const sessionCommands = ['login', 'logout', 'servers', 'git-credential', 'completions']

let service: Service
let home: ClientHome

before(async () => {
  service = await startService()
  home = await loggedIn(service)
  for (const name of ['site', 'tour', 'town']) await service.admin.post('/repos', { name })
  for (const folder of ['bin', 'empty']) await mkdir(join(home.path, folder))
  await symlink(launcher, join(home.path, 'bin/svc'))
})

after(async () => {
  await home[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

test(
  'the help of every client command fits 80 columns and 24 lines, and the page has each',
  exhaustive,
  async () => {
    const page = await readFile(new URL('../../docs/command-line.md', import.meta.url), 'utf8')
    for (const command of [...operations.map((one) => one.command), ...sessionCommands]) {
      const help = await home.svc([...command.split(' '), '--help'])
      const lines = help.trimEnd().split('\n')
      assert.ok(lines.length <= 24, `${command}: ${lines.length} lines`)
      for (const line of lines) assert.ok(line.length <= 80, `${command}: ${line}`)
      assert.ok(page.includes(`svc ${command}`) || command === 'keys-add', command)
    }
  },
)

test('the help of all other commands fits 80 columns', exhaustive, async () => {
  const all = ['', ...(await commandsBelow())].map((words) => words.trim())
  const others = all.filter((words) => !operations.some(({ command }) => command === words))
  assert.ok(others.includes('serve') && others.includes('deliveries'), others.join())
  for (const words of others) {
    const help = await home.svc([...words.split(' ').filter(Boolean), '--help'])
    for (const line of help.split('\n')) assert.ok(line.length <= 80, `${words}: ${line}`)
  }
})

/** The words of all commands, which alone are offered with a description. */
async function commandsBelow(...above: string[]): Promise<string[]> {
  const offered = await home.svc(['completions', 'fish', '--', ...above, ''])
  const names = [...offered.matchAll(/^(\S+)\t/gm)].map(([, name = '']) => name)
  const below = await Promise.all(
    names.map(async (name) => [
      [...above, name].join(' '),
      ...(await commandsBelow(...above, name)),
    ]),
  )
  return below.flat()
}

test('a client command does not load the server', async () => {
  const folder = join(home.path, 'coverage')
  await home.runProgram(['servers'], { env: { NODE_V8_COVERAGE: folder } })
  const [file = ''] = await readdir(folder)
  const { result } = JSON.parse(await readFile(join(folder, file), 'utf8'))
  const loaded = result.map(({ url }: { url: string }) => url.replace(/^.*\//, ''))
  assert.ok(loaded.includes('main.js'))
  const server = ['server.js', 'instance.js', 'sql.js', 'postgres.js', 'pino.js', 'app.js']
  assert.deepEqual(
    loaded.filter((name: string) => server.includes(name)),
    [],
  )
})

type Completions = [line: string, offered: string[]][]

/** What is offered after a line, in any order; in each shell. */
const inShells: Completions = [
  ['svc del', ['deleted-repos', 'deliveries']],
  ['svc protections add main --o', ['--owners']],
  ['svc runs watch to', ['tour', 'town']],
  ['svc runs list --status ', ['completed', 'queued', 'running']],
  ['svc tokens create --permission repo:', ['repo:delete', 'repo:read', 'repo:write']],
  ['svc tokens create --permission=repo:r', ['--permission=repo:read']],
  ['svc nothing x', []],
]
const completions: Completions = [
  ['svc runs re', ['rerun']],
  // Names of repositories, for arguments and options.
  ['svc browse file --rev main to', ['tour', 'town']],
  ['svc repos delete to', ['tour', 'town']],
  ['svc clone t', ['tour', 'town']],
  ['svc runs list --server main to', ['tour', 'town']],
  ['svc runs list --server local to', []],
  ['svc runs list --server=main to', ['tour', 'town']],
  ['svc runs list --server=local to', []],
  ['svc tokens create --repository tour tow', ['town']],
  // Values of options.
  ['svc runs list --status queued --l', ['--limit']],
  ['svc runs list --status=r', ['--status=running']],
  ['svc tokens create --permission metr', ['metrics:read']],
  ['svc tokens create --permission admin webhook:r', ['webhook:read']],
  ['svc keys add --permission workflow:', ['workflow:read', 'workflow:trigger']],
  [
    'svc events --kind collaborator.',
    ['added', 'changed', 'removed'].map((end) => `collaborator.${end}`),
  ],
  ['svc audit --action id', ['id_token.issued']],
  ['svc browse tags --order ', ['name', 'version']],
  ['svc run --event work', ['workflow_dispatch']],
  ['svc repos list --server ', ['local', 'main']],
  ['svc logout ', ['main']],
  ['svc completions ', ['bash', 'fish', 'zsh']],
]

test('commands, options, their values, and names of repositories and servers are offered', async () => {
  for (const [line, offered] of [...inShells, ...completions]) {
    const [, ...words] = line.split(' ')
    const out = await home.svc(['completions', 'bash', '--', ...words])
    assert.deepEqual(out.split('\n').slice(0, -1).toSorted(), offered, line)
  }
})

/** Runs a script of a shell, for which svc is on the PATH. */
async function runShell(shell: string, ...args: string[]): Promise<string[]> {
  const env = { ...process.env, HOME: home.path, PATH: `${home.path}/bin:${process.env.PATH}` }
  const { stdout } = await execute(shell, args, { env, cwd: join(home.path, 'empty') })
  return stdout.split('\n').filter((line) => line !== '')
}

const quoted = (words: string[]) => words.map((word) => `'${word}'`).join(' ')

test('bash completes', async () => {
  const script = join(home.path, 'svc.bash')
  await writeFile(script, await home.svc(['completions', 'bash']))
  const complete = (words: string[]) => {
    const setUp = `COMP_WORDS=(${quoted(words)}); COMP_CWORD=${words.length - 1}`
    return runShell('bash', '-c', `. ${script}; ${setUp}; _svc; printf '%s\\n' "\${COMPREPLY[@]}"`)
  }
  for (const [line, offered] of inShells)
    assert.deepEqual((await complete(line.split(' '))).toSorted(), offered, line)
  // Bash cuts words at colons, and replaces what is after them.
  const create = ['svc', 'tokens', 'create', '--permission']
  assert.deepEqual(await complete([...create, 'workflow', ':', 're']), ['read'])
  assert.deepEqual(await complete([...create, 'workflow', ':']), ['trigger', 'read'])
  assert.deepEqual(await complete([...create, 'repo', ':', 'read', 'metr']), ['metrics:read'])
  assert.deepEqual(await complete(['svc', 'runs', 'list', '--status', '=', 'q']), ['queued'])
  assert.deepEqual(await complete(['svc', 'runs', 'list', '--status', '=']), [
    ...['queued', 'running', 'completed'],
  ])
})

test('zsh completes from a folder of fpath, at the first time, too', {
  ...exhaustive,
  skip: without('zsh'),
}, async () => {
  await writeFile(join(home.path, '_svc'), await home.svc(['completions', 'zsh']))
  const complete = (words: string[]) => {
    // In place of zsh's own, which work in its editor only.
    const setUp = `fpath=(${home.path}); autoload -Uz _svc; compdef() {}; _files() { echo FILES }
      compadd() { for word in "\${@:2}"; do [[ $word == $words[CURRENT]* ]] && found=1 && echo $word; done; [[ -n $found ]] }`
    const command = `${setUp}; words=(${quoted(words)} ''); ((CURRENT = $#words - 1)); _svc`
    return runShell('zsh', '-f', '-c', command)
  }
  for (const [line, offered] of inShells) {
    const expected = offered.length === 0 ? ['FILES'] : offered
    assert.deepEqual((await complete(line.split(' '))).toSorted(), expected, line)
  }
  assert.deepEqual(await complete(['svc', 'keys', 'add', 'id']), ['FILES'])
})

test('fish completes', { ...exhaustive, skip: without('fish') }, async () => {
  const script = join(home.path, 'svc.fish')
  await writeFile(script, await home.svc(['completions', 'fish']))
  const complete = (line: string) =>
    runShell('fish', '--no-config', '-c', `source ${script}; complete -C '${line}'`)
  for (const [line, offered] of inShells) {
    const words = (await complete(line)).map((found) => found.replace(/\t.*/, ''))
    assert.deepEqual(words.toSorted(), offered, line)
  }
  assert.deepEqual(await complete('svc protections l'), [
    'list\tlist the rules of protected branches, or tags',
  ])
  await writeFile(join(home.path, 'empty/id.pub'), '')
  assert.deepEqual(await complete('svc keys add i'), ['id.pub'])
})

test('without a server, and for no other shell, there is nothing to complete with', async () => {
  for (const env of [{ SVC_URL: 'http://127.0.0.1:1', SVC_TOKEN: 'x' }, { SVC_URL: ':' }]) {
    const { code, out, err } = await home.run(['completions', 'bash', '--', 'clone', ''], { env })
    assert.deepEqual({ code, out, err }, { code: 0, out: '', err: '' })
  }
  const { code, err } = await home.run(['completions', 'tcsh'])
  assert.equal(code, 2)
  assert.match(err, /completions for bash, zsh and fish/)
})

test('a missing argument is named', async () => {
  const env = { SVC_URL: 'http://127.0.0.1:1', SVC_TOKEN: 'x' }
  for (const [args, expected] of [
    [['repos', 'create'], /Give the name; svc repos create --help shows the arguments/],
    [['runs', 'list'], /Give the repository, or change to a clone of it; svc runs list --help/],
    [['secrets', 'set', 'KEY'], /Give the repository, or change to a clone of it/],
    [['runs', 'list', 'tour', '--limit', 'x'], /--limit takes a whole number/],
  ] as const) {
    const { code, err } = await home.run([...args], { env })
    assert.deepEqual([code, expected.test(err)], [2, true], err)
  }
})
