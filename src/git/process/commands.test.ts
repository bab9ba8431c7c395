import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { gitCommands } from './commands.ts'
import { gitConfig } from './git-config.ts'

// Each takes as many values as it has parameters.
const commands: [string, (...values: string[]) => string[]][] = Object.entries(gitCommands)

// It takes a directory as its one argument, and no options: git-upload-archive(1).
const optionless = new Set(['archive'])

// They do not know --end-of-options. The place of the id of a commit, which is checked; paths follow `--`.
const checked: Record<string, number> = {
  blame: 2,
  search: 2,
  searchIgnoringCase: 2,
  listSizes: 1,
  archiveCommit: 3,
}

// A pack without an object: gitformat-pack(5).
const emptyPack = Buffer.from('5041434b0000000200000000', 'hex')

const wholeEmptyPack = Buffer.concat([emptyPack, createHash('sha1').update(emptyPack).digest()])
const inputs: Record<string, string | Buffer> = {
  fetch: '0000',
  fetchSession: '0000',
  push: '0000',
  writePack: 'refs/heads/packed\n',
  takePack: wholeEmptyPack,
  takeSmallPack: wholeEmptyPack,
}

const author = 'Ada <ada@example.com> 0 +0000'

function makeCommit(directory: string) {
  const make = (type: string, input: string | Buffer) => {
    const args = [`--git-dir=${directory}`, 'hash-object', '-t', type, '-w', '--stdin']
    return execFileSync('git', args, { input, encoding: 'utf8' }).trim()
  }
  const emptyTree = make('tree', '')
  const commit = make('commit', `tree ${emptyTree}\nauthor ${author}\ncommitter ${author}\n\none\n`)
  const blob = make('blob', 'one\n')
  const entry = Buffer.concat([Buffer.from('100644 one.txt\0'), Buffer.from(blob, 'hex')])
  const withFile = make(
    'commit',
    `tree ${make('tree', entry)}\nauthor ${author}\ncommitter ${author}\n\none\n`,
  )
  return { emptyTree, commit, blob, withFile }
}

function commandNamed(wanted: string) {
  return commands.find(([name]) => name === wanted) ?? assert.fail(wanted)
}

test('no value can be mistaken for an option', () => {
  for (const [name, command] of commands.filter(([name]) => !optionless.has(name))) {
    if (name in checked) continue
    const args = command(...Array<string>(command.length).fill('--evil'))
    const place = args.indexOf('--evil')
    if (place === -1) continue
    const end = args.indexOf('--end-of-options')
    assert.ok(end !== -1 && end < place, name)
  }
})

test('no value of a command without --end-of-options can be mistaken for an option', () => {
  for (const [name, place] of Object.entries(checked)) {
    const [, command] = commandNamed(name)
    const values = Array<string>(command.length + 1).fill('--evil')
    assert.throws(() => command(...values), TypeError, name)
    const args = command(...values.with(place, '0'.repeat(40)))
    assert.ok(args.indexOf('--') < args.indexOf('--evil'), name)
  }
})

test('git knows every command and its options', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'))
  const directory = join(folder, 'site.git')
  const other = join(folder, 'other.git')
  execFileSync('git', gitCommands.init(other))
  const { emptyTree, commit, blob, withFile } = makeCommit(other)
  const hashEmpty = ['--git-dir', other, 'hash-object', '-w', '--stdin']
  const emptyBlob = execFileSync('git', hashEmpty, { input: '' }).toString().trim()
  const packed = join(folder, 'packed.git')
  execFileSync('git', ['--git-dir', other, 'update-ref', 'refs/heads/packed', commit])
  execFileSync('git', ['clone', '--quiet', '--bare', '--no-local', other, packed])
  const others = commands.filter(([name]) => !optionless.has(name))
  for (const [name, command] of [commandNamed('init'), ...others]) {
    const input = inputs[name] ?? ''
    const options = { cwd: folder, input, stdio: 'pipe' } as const
    const values: Record<string, string[]> = {
      init: [directory, 'sha256', 'trunk'],
      listConfigIn: [other, emptyBlob],
      setHead: [directory, 'refs/heads/main'],
      repackAll: [directory, '0', join(folder, 'expired')],
      takePack: [other, '1000'],
      takeSmallPack: [other],
      listChanges: [other, emptyTree, emptyTree],
      diffTrees: [other, emptyTree, commit, 'a.txt'],
      listHistory: [other, '1', '0', 'Ada', '0 +0000', '1 +0000', commit, 'a.txt'],
      listSides: [other, commit, commit],
      mergeBase: [other, commit, commit],
      listCommits: [other, '1', commit, commit],
      logWithFiles: [other, '1', commit, `^${commit}`],
      logTip: [other, commit],
      diffLines: [other, commit, withFile, 'one.txt'],
      mergeBases: [other, commit, commit],
      listMerges: [other, `${commit}..${commit}`],
      rangeDiff: [other, withFile, commit, withFile, commit],
      logPatches: [other, `${commit}..${commit}`],
      logAlone: [other, '1', '0', commit],
      isAncestor: [other, commit, commit],
      mergeTrees: [other, commit, commit],
      listPicks: [other, '1', commit, commit],
      indexPacks: [packed],
      writePack: [packed],
      blame: [other, '1,1', withFile, 'one.txt'],
      search: [other, 'one', withFile, ':(literal)one.txt'],
      searchIgnoringCase: [other, 'ONE', withFile, ':(literal)one.txt'],
      listSizes: [other, withFile, 'one.txt'],
      archiveCommit: [other, 'tar.gz', 'one/', withFile, 'one.txt'],
      countAheadBehind: [other, `${commit}...${commit}`],
      walkTrees: [other],
      walkTreesOfPath: [other, 'folder'],
      printBlob: [other, blob],
    }
    const args = command(...(values[name] ?? [directory, directory]))
    assert.doesNotThrow(() => execFileSync('git', args, options), name)
  }
  rmSync(folder, { recursive: true })
})

test('git accepts every configuration that it is given', () => {
  const config = gitConfig({ hooksPath: '/nonexistent', pushMaxBytes: 1 })
  const args = Object.entries(config).flatMap(([key, value]) => ['-c', `${key}=${value}`])
  const listed = execFileSync('git', [...args, 'config', '--list'], { encoding: 'utf8' })
  for (const [key, value] of Object.entries(config)) {
    assert.ok(listed.toLowerCase().includes(`${key}=${value}`.toLowerCase()), key)
  }
})
