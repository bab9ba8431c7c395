import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { operations } from '../../src/client/client-commands.ts'
import { type ClientHome, createClientHome } from '../support/client-home.ts'
import { without } from '../support/programs.ts'

const execute = promisify(execFile)
const sessionCommands = ['login', 'logout', 'servers', 'git-credential', 'completions']

let home: ClientHome

before(async () => {
  home = await createClientHome()
})

after(() => home[Symbol.asyncDispose]())

test('the help of every client command fits 80 columns and 24 lines, and the page has each', async () => {
  const page = await readFile(new URL('../../docs/command-line.md', import.meta.url), 'utf8')
  for (const command of [...operations.map((one) => one.command), ...sessionCommands]) {
    const help = await home.svc([...command.split(' '), '--help'])
    const lines = help.trimEnd().split('\n')
    assert.ok(lines.length <= 24, `${command}: ${lines.length} lines`)
    for (const line of lines) assert.ok(line.length <= 80, `${command}: ${line}`)
    assert.ok(page.includes(`svc ${command}`) || command === 'keys-add', command)
  }
})

test('the help of all other commands fits 80 columns', async () => {
  const script = await home.svc(['completions', 'bash'])
  const all = [...script.matchAll(/^ {4}'(.*)'\) echo/gm)].map(([, words = '']) => words)
  const others = all.filter((words) => !operations.some(({ command }) => command === words))
  assert.ok(others.includes('serve') && others.includes('deliveries'), others.join())
  for (const words of others) {
    const help = await home.svc([...words.split(' ').filter(Boolean), '--help'])
    for (const line of help.split('\n')) assert.ok(line.length <= 80, `${words}: ${line}`)
  }
})

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

test('bash completes commands and options', async () => {
  const script = join(home.path, 'svc.bash')
  await writeFile(script, await home.svc(['completions', 'bash']))
  const complete = async (line: string) => {
    const words = line.split(' ')
    const setUp = `COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}`
    const command = `. ${script}; ${setUp}; _svc; printf '%s\\n' "\${COMPREPLY[@]}"`
    return (await execute('bash', ['-c', command])).stdout.trim().split('\n')
  }
  assert.deepEqual(await complete('svc del'), ['deleted-repos', 'deliveries'])
  assert.deepEqual(await complete('svc runs re'), ['rerun'])
  assert.deepEqual(await complete('svc protections add main --o'), ['--owners'])
  assert.deepEqual(await complete('svc nothing x'), [''])
})

test('zsh completes from a folder of fpath, at the first time, too', {
  skip: without('zsh'),
}, async () => {
  const script = await home.svc(['completions', 'zsh'])
  await writeFile(join(home.path, '_svc'), script)
  const complete = async (...words: string[]) => {
    // In place of zsh's own, which work in its editor only.
    const setUp = `fpath=(${home.path}); autoload -Uz _svc; compdef() {}; _files() { echo FILES }
      compadd() { for word in "\${@:2}"; do [[ $word == $words[CURRENT]* ]] && found=1 && echo $word; done; [[ -n $found ]] }`
    const command = `${setUp}; words=(${words.join(' ')} ''); ((CURRENT = $#words - 1)); _svc`
    return (await execute('zsh', ['-f', '-c', command])).stdout.trim().split('\n')
  }
  assert.deepEqual(await complete('svc', 'del'), ['deleted-repos', 'deliveries'])
  assert.deepEqual(await complete('svc', 'runs', 're'), ['rerun'])
  assert.deepEqual(await complete('svc', 'protections', 'add', 'main', '--o'), ['--owners'])
  assert.deepEqual(await complete('svc', 'keys', 'add', 'id'), ['FILES'])
})

test('fish completes commands and options', { skip: without('fish') }, async () => {
  const script = join(home.path, 'svc.fish')
  await writeFile(script, await home.svc(['completions', 'fish']))
  const complete = async (line: string) => {
    const command = `source ${script}; complete -C '${line}'`
    const env = { ...process.env, HOME: home.path }
    const { stdout } = await execute('fish', ['--no-config', '-c', command], { env })
    return stdout
      .trim()
      .split('\n')
      .map((found) => found.replace(/\t.*/, ''))
  }
  assert.deepEqual(await complete('svc del'), ['deleted-repos', 'deliveries'])
  assert.deepEqual(await complete('svc runs re'), ['rerun'])
  assert.deepEqual(await complete('svc protections add main --o'), ['--owners'])
})

test('there are completions for zsh and fish, and for no other shell', async () => {
  assert.match(
    await home.svc(['completions', 'zsh']),
    /^#compdef svc\n(.*\n)* {4}'runs watch'\) echo '/,
  )
  const fish = await home.svc(['completions', 'fish'])
  assert.match(
    fish,
    /^complete -c svc -n __fish_use_subcommand -a repos -d 'manage repositories'$/m,
  )
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
