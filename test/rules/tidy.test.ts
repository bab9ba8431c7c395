import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Setting } from '#config/setting.ts'
import { settings } from '#config/settings-table.ts'
import { tables } from '#database/tables.ts'
import { testSettings } from '../support/test-settings.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The folders of src/, and the files at its top, in rows: each imports only from itself and from lower rows. */
const rows = [
  ['main', 'ssh-main', 'spawn-helper-main', 'runner-main'], // programs
  ['server'], // what listens
  ['routes'], // all operations
  ['cli'], // the command line
  ['app'], // what the parts are made of
  ['offline'], // what commands may do beside a server
  ['web'], // pages for people, which know the API by its operations
  ['api', 'ops'], // operations about all of the others, and what an operator does
  ['changes'], // what is proposed for branches, which pushes make and land
  ['git-server', 'browse', 'workflows', 'webhooks'], // features: they do not know each other; events join them
  ['secrets'],
  ['repositories', 'identity'], // what all features are about, and who is calling
  ['events'], // what happens
  ['git', 'ssh', 'http', 'database', 'actions'], // kits: technology, no resources
  ['config', 'access'], // vocabulary: settings, permissions, principals
  ['base'],
]

const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '' && !isDeleted(path))
const sources = files.filter((path) => path.endsWith('.ts'))
const programs = new Set([
  'src/main.ts',
  'src/ssh-main.ts',
  'src/spawn-helper-main.ts',
  'src/runner-main.ts',
])
const isTest = (path: string) => path.endsWith('.test.ts') || path.startsWith('test/')

test('folders import only from lower rows', () => {
  for (const path of sources.filter((source) => source.startsWith('src/') && !isTest(source))) {
    for (const target of importsOf(path)) {
      const [from, to] = [folderOf(path), folderOf(target)]
      const isAllowed = from === to || rowOf(to) > rowOf(from)
      assert.ok(isAllowed, `${path} imports ${target}: ${from} may not import ${to}`)
    }
  }
})

/** The folders and files within folders, in rows of the same kind; `*` is all that has no name there. */
const innerRows: Record<string, string[][]> = {
  cli: [
    ['*'],
    ['local', 'runs'],
    ['operations'], // commands for operations of the API
    ['servers'], // logins, and requests
    ['terminal'],
  ],
  web: [
    ['serve'], // a request for a page
    ['runs', 'pushes', 'changes'],
    ['edit', 'history'],
    ['code'],
    ['admin', 'docs', 'live', 'settings', 'webhooks'],
    ['*'], // what pages are made of
    ['render'], // HTML, Markdown, highlighting
  ],
  api: [['access-check'], ['event-log', 'mcp']],
  ops: [['backup', 'doctor', 'maintenance', 'metrics'], ['fsck']],
  'git-server': [
    ['git-server'],
    ['http', 'ssh', 'api-writes'],
    ['lfs'], // objects of Git LFS
    ['git-engine'],
    ['receive-pack', 'upload-pack', 'pushes'],
    ['small-packs', 'authorize-push'],
    ['push'],
    ['requests'],
    ['leak-guard', 'rpc'],
  ],
  workflows: [
    ['*'], // what the parts are made of
    ['runs'], // for users
    ['runners'], // the queue and its runners
    ['starting'], // the making of runs, by events and by requests
    ['commits', 'credentials', 'views'],
    ['run-events', 'run-files', 'run-shells', 'id-tokens'],
    ['run-store', 'run-annotation-store', 'run-log-store', 'job-token-store', 'schedule-store'],
    ['run-job-store'],
  ],
  browse: [
    ['browse'],
    ['activity-routes', 'blame', 'files', 'folders', 'history', 'refs', 'search'],
    ['browse-parts'],
    ['last-commits'],
    ['*'],
  ],
  webhooks: [['webhooks'], ['management', 'delivering'], ['composing', 'sending'], ['*']],
  secrets: [['*'], ['vault']],
  repositories: [
    ['repository-routes'],
    ['imports', 'namespaces', 'rights'],
    ['*'],
    ['store'],
    ['directories', 's3'],
  ],
  identity: [['users'], ['logins'], ['sessions', 'trust-rules'], ['ssh-keys'], ['tokens'], ['*']],
  events: [['audit'], ['*'], ['github-payloads']],
  git: [
    ['import', 'maintenance', 'protocol'],
    ['clone-packs'],
    ['refs'],
    ['objects', 'diff'],
    ['process'],
  ],
  http: [['http-server'], ['serve', 'openapi'], ['connection'], ['*']],
  database: [['nodes'], ['*']],
  actions: [
    ['runner'],
    ['runner-api'], // the protocol between runners and the server
    ['workflow-engine'], // execution of a run, and its report
    ['tool-cache'],
    ['workflow-parser', 'sandbox', 'secret-masking'],
    ['step-network'], // the proxy through which workflow steps reach hosts
  ],
  'actions/runner': [['*'], ['shells', 'leases'], ['run-connection'], ['lease', 'server-client']],
  'actions/workflow-engine': [
    ['*'], // the execution of runs, jobs and steps
    ['planning'], // what is known before a job starts
    ['run-state'],
    ['cancellation', 'contexts', 'run-storage'],
    ['output', 'job-files'], // what steps write; files found and hashed by patterns
    ['plan'],
  ],
  'actions/sandbox': [['*'], ['memory'], ['sandbox', 'processes', 'tools'], ['launch']],
  'actions/workflow-parser': [
    ['*'], // whole files, and what concerns several of them
    ['reading'], // the keys of workflows and actions
    ['expressions'],
    ['source'], // YAML with positions, and the faults in it
    ['workflow'], // a parsed file
    ['matrix', 'runner-labels', 'setup-actions', 'workflow-folders'],
  ],
  base: [['outbound'], ['concurrency', 'archives'], ['*']],
}

test('folders within a folder import only from lower rows', () => {
  for (const [folder, inner] of Object.entries(innerRows)) {
    const rowWithin = (path: string) =>
      inner.findIndex((names) => names.includes(nameWithin(folder, path)))
    for (const path of sources) {
      if (!isWithin(folder, path) || isTest(path)) continue
      assert.notEqual(rowWithin(path), -1, `${path} has no place in the order of ${folder}`)
      for (const target of importsOf(path).filter((imported) => isWithin(folder, imported))) {
        const isSame = nameWithin(folder, path) === nameWithin(folder, target)
        const isAllowed = isSame || rowWithin(target) > rowWithin(path)
        assert.ok(isAllowed, `${path} may not import ${target}`)
      }
    }
  }
})

/** The name of a file within a folder in the order of that folder. */
function nameWithin(folder: string, path: string): string {
  const [first = ''] = path.slice(`src/${folder}/`.length).split('/')
  const name = first.replace(/\.ts$/, '')
  return innerRows[folder]?.flat().includes(name) ? name : '*'
}

function isWithin(folder: string, path: string): boolean {
  return path.startsWith(`src/${folder}/`)
}

test('what runs on the machine of a runner knows the foundation alone', () => {
  const known = ['actions', 'base', 'config']
  for (const path of sources.filter((source) => folderOf(source) === 'actions')) {
    for (const target of isTest(path) ? [] : importsOf(path))
      assert.ok(known.includes(folderOf(target)), `${path} imports ${target}`)
  }
})

test('the SSH process and runners load no database', () => {
  for (const program of ['src/ssh-main.ts', 'src/runner-main.ts']) {
    const loaded = loadedBy([program])
    const foreign = [...loaded].filter((path) =>
      ['database', 'repositories'].includes(folderOf(path)),
    )
    assert.deepEqual(foreign, [], program)
    assert.ok(loaded.size > 20, program)
  }
})

/** The files of folders within large ones that other folders may import. */
const entryPoints: Record<string, string[]> = {
  'cli/operations': [
    'client-operations',
    'operation',
    'operation-request',
    'import-all',
    'import-repository',
  ],
  'cli/servers': [
    'clone-remotes',
    'connect',
    'event-stream-client',
    'git-credential',
    'http-client',
    'logins',
    'server-list',
    'user-git',
    'response-errors',
  ],
  'cli/local': [
    'backup-commands',
    'doctor-command',
    'local-client',
    'local-runs',
    'maintenance-commands',
  ],
  'cli/runs': ['run-workflows', 'runner-command'],
  'cli/terminal': ['command-errors', 'display', 'given-values', 'terminal'],
  'http/serve': [
    'admission',
    'json-body',
    'json-operations',
    'page-requests',
    'pipeline',
    'request-log',
    'route-table',
  ],
  'http/openapi': ['llms-page', 'openapi', 'public-routes'],
  'http/connection': ['client-error', 'client-limits', 'connections', 'forwarded', 'pipelining'],
  'web/serve': ['web'],
  'git/process': [
    'commands',
    'git-config',
    'git-process',
    'orphans',
    'preforked-process',
    'process-pool',
    'reused-processes',
    'spawn-helper',
    'helper-processes',
    'version',
  ],
  'git/diff': ['diff-parser', 'parsed-diff', 'quote-path'],
  'git/objects': [
    'commit-object',
    'edit-tree',
    'loose-objects',
    'merge-trees',
    'new-files',
    'new-objects',
    'object-pool',
    'object-reader',
    'lfs-pointers',
    'object-format',
    'object-stream',
    'pack',
    'packs',
    'pushed-commits',
    'tag-object',
    'tree-buffer',
  ],
  'git/refs': [
    'ancestry',
    'forced-updates',
    'move-refs',
    'ref-cache',
    'ref-name',
    'ref-snapshot',
    'refs',
    'repository-version',
    'resolve-revision',
    'stored-ref',
  ],
  'git/protocol': [
    'advertisement',
    'archive-request',
    'hook-channel',
    'ls-refs',
    'object-sizes',
    'pipe-process',
    'pkt-line',
    'push-commands',
    'push-report',
    'request-body',
    'requests',
  ],
  'git/import': [
    'import-error',
    'import-refs',
    'lfs-source',
    'local-source',
    'progress',
    'remote-source',
  ],
  'git/maintenance': ['leftovers', 'maintain'],
  'browse/blame': ['blame', 'blame-routes'],
  'browse/files': ['archive-routes', 'file-routes'],
  'browse/folders': ['tree-routes'],
  'browse/history': ['commit-routes', 'compare-routes'],
  'browse/last-commits': ['last-commit-files', 'last-commits'],
  'browse/refs': ['ref-routes', 'ref-selection'],
  'browse/search': ['search', 'search-routes'],
  'webhooks/composing': ['composer'],
  'webhooks/delivering': ['delivery-loop', 'delivery-worker'],
  'webhooks/management': [
    'deliveries',
    'delivery-retention',
    'delivery-routes',
    'purge',
    'webhook-routes',
    'webhook-schemas',
    'webhook-service',
  ],
  'webhooks/sending': ['receiver-connections', 'sender'],
  'repositories/directories': ['deleted-directories', 'directories'],
  'repositories/imports': ['import-job', 'import-routes', 'import-sources', 'imports'],
  'repositories/namespaces': [
    'namespace-routes',
    'namespace-usage',
    'namespace-usage-routes',
    'namespaces',
  ],
  'repositories/rights': [
    'collaborator-routes',
    'collaborators',
    'protection-routes',
    'protections',
  ],
  'repositories/s3': ['s3', 's3-error'],
  'ops/doctor/checks': ['checks'],
  'git-server/requests': [
    'find-repository',
    'git-limiters',
    'git-request',
    'operations',
    'respond',
  ],
  'git-server/push': [
    'proposal',
    'push',
    'push-holds',
    'push-options',
    'pushed-objects',
    'report-hold',
    'unrun-workflows',
  ],
  'git-server/upload-pack': ['upload-pack'],
  'git-server/upload-pack/stored-clones': ['stored-clones'],
  'git-server/receive-pack': ['receive-pack'],
  'git-server/small-packs': ['quarantine', 'small-packs'],
  // With the database, only in the main process.
  'git-server/pushes': ['keep-commits', 'push-lifecycle', 'pushes', 'push-routes'],
  'git-server/authorize-push': ['authorize-push', 'await-runs', 'check-push'],
  'git-server/http': ['git-routes'],
  'git-server/lfs': ['lfs-operations', 'lfs-routes', 'lfs-tokens'],
  'git-server/api-writes': [
    'api-push',
    'api-writes',
    'create-commit',
    'find-conflict',
    'merge-branch',
    'merge-chain',
    'write-routes',
    'write-schemas',
  ],
  // In the main process, and in the SSH process.
  'git-server/ssh': ['ssh-process', 'ssh-program'],
  'actions/runner/leases': ['lease-thread'],
  'actions/runner/shells': ['failed-workspaces'],
  'actions/workflow-engine/job-files': ['job-files'],
  'actions/workflow-engine/output': [
    'annotations',
    'entry-emitter',
    'limited-output',
    'render-log',
    'step-output',
  ],
  'actions/workflow-parser/expressions': [
    'evaluate',
    'never-true',
    'parse-expression',
    'scope',
    'template-parts',
    'workflow-keys',
  ],
  'actions/workflow-parser/reading': ['cron', 'filter-pattern', 'given-inputs', 'parse'],
}

test('other folders import only the entry points of a folder within a folder', () => {
  const imported = new Set<string>()
  for (const path of sources.filter((source) => source.startsWith('src/') && !isTest(source))) {
    for (const target of importsOf(path)) {
      const folder = dirname(relative('src', target))
      if (`src/${folder}` === dirname(path) || !(folder in entryPoints)) continue
      imported.add(target)
      const names = entryPoints[folder] ?? []
      assert.ok(names.includes(basename(target, '.ts')), `${path} imports ${target}`)
    }
  }
  const declared = Object.entries(entryPoints).flatMap(([folder, names]) =>
    names.map((name) => `src/${folder}/${name}.ts`),
  )
  assert.deepEqual([...imported].sort(), declared.sort())
})

test('there are no import cycles', () => {
  const product = sources.filter((path) => path.startsWith('src/') && !isTest(path))
  const imports = new Map(product.map((path) => [path, importsOf(path)]))
  const done = new Set<string>()
  const visit = (path: string, trail: string[]): void => {
    assert.ok(!trail.includes(path), [...trail.slice(trail.indexOf(path)), path].join(' -> '))
    if (done.has(path)) return
    for (const target of imports.get(path) ?? []) visit(target, [...trail, path])
    done.add(path)
  }
  for (const path of product) visit(path, [])
})

const onDemand = new Set([
  'aws4fetch',
  'jose',
  'openid-client',
  'undici',
  'semver',
  '@modelcontextprotocol/server',
])

test('packages that only some installations need are loaded on demand', () => {
  const loaded = loadedBy(programs)
  for (const path of loaded) {
    const needless = staticImports(path).find((specifier) => onDemand.has(specifier))
    assert.equal(needless, undefined, path)
  }
  assert.ok(loaded.size > 100)
})

/** The files that programs load when they start. */
function loadedBy(programs: Iterable<string>): Set<string> {
  const loaded = new Set<string>()
  const load = (path: string): void => {
    if (loaded.has(path)) return
    loaded.add(path)
    for (const specifier of staticImports(path)) {
      const target = resolveImport(path, specifier)
      if (target !== undefined) load(target)
    }
  }
  for (const path of programs) load(path)
  return loaded
}

/** What a file imports when it is loaded, without types. */
function staticImports(path: string): string[] {
  const imports = read(path).matchAll(/^(?:import|export) (?!type )[^'"]*? from '([^']+)'/gm)
  return [...imports].map(([, specifier = '']) => specifier)
}

test('every folder of src/ has its place in the order', () => {
  const folders = new Set(
    sources.filter((path) => path.startsWith('src/') && !isTest(path)).map(folderOf),
  )
  assert.deepEqual([...folders].sort(), rows.flat().sort())
})

test('only the programs access process globals', () => {
  for (const path of sources.filter((source) => source.startsWith('src/') && !isTest(source))) {
    if (programs.has(path)) continue
    assert.ok(!/process\.(env|argv|exit|stdin|stdout|stderr|on|cwd)\b/.test(read(path)), path)
  }
})

test('child processes are started in few places: git, of the service and of the user, the browser of the user, processes of the service, and workflow steps', () => {
  const spawners = sources.filter(
    (path) => path.startsWith('src/') && !isTest(path) && /node:child_process/.test(read(path)),
  )
  assert.deepEqual(spawners, [
    'src/actions/sandbox/launch.ts',
    'src/cli/servers/open-browser.ts',
    'src/cli/servers/user-git.ts',
    'src/git-server/ssh/ssh-process.ts',
    'src/git/process/preforked-process.ts',
    'src/git/process/spawn-helper.ts',
    'src/workflows/runners/runner-process.ts',
  ])
})

test('only stores and migrations contain SQL', () => {
  const builders = /\.(selectFrom|insertInto|updateTable|deleteFrom)\(/
  for (const path of sources.filter((source) => source.startsWith('src/') && !isTest(source))) {
    const isStore = /-store\.ts$|^src\/(database|events)\//.test(path)
    assert.ok(isStore || !builders.test(read(path)), `${path} queries the database`)
  }
})

test('a table is queried only by the stores of its owner, and by the folders that it lists', () => {
  for (const { name, owner, readers = {}, writers = {} } of tables) {
    const isForeign = (folder: string) => folder !== owner
    const found = foldersQuerying(name)
    assert.deepEqual(found.readers.filter(isForeign), Object.keys(readers).sort(), `reads ${name}`)
    assert.deepEqual(found.writers.filter(isForeign), Object.keys(writers).sort(), `writes ${name}`)
  }
})

/** The folder to which a file's tables belong: one within another if that has a name in its order. */
function ownerOf(path: string): string {
  const folder = folderOf(path)
  const name = path.split('/').length > 3 ? nameWithin(folder, path) : '*'
  return name === '*' || (folder === 'git-server' && name !== 'leak-guard')
    ? folder
    : `${folder}/${name}`
}

/** The folders whose files read a table, and those whose files write it. */
function foldersQuerying(name: string): { readers: string[]; writers: string[] } {
  const property = name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase())
  const quoted = `'${property}( as \\w+)?'`
  const product = sources.filter((path) => path.startsWith('src/') && !isTest(path))
  const stores = product.filter((path) => ownerOf(path) !== 'database')
  const foldersOf = (method: string) => {
    const direct = new RegExp(`\\.${method}\\(\\s*\\[?${quoted}`)
    // Where the table is a variable, each table counts that the file names outside of calls.
    const indirect = new RegExp(`\\.${method}\\(\\w`)
    const names = new RegExp(`(?<!\\(\\s*)${quoted}`)
    const isQuery = (text: string) => direct.test(text) || (indirect.test(text) && names.test(text))
    const folders = stores.filter((path) => isQuery(read(path))).map(ownerOf)
    return [...new Set(folders)].sort()
  }
  return {
    readers: foldersOf('(selectFrom|(inner|left|right|full|cross)Join)'),
    writers: foldersOf('(insertInto|updateTable|deleteFrom)'),
  }
}

test('limits count by user, not by token: their keys are from limitKeyOf', () => {
  const byToken =
    /\.acquire\((\[|\w+, )?[\w.]*\b(principal|caller)\.(id|username)|username \|\| [\w.]*\bid\b/
  for (const path of sources.filter((source) => source.startsWith('src/') && !isTest(source))) {
    if (path === 'src/access/principal.ts') continue
    assert.ok(!byToken.test(read(path)), `${path}: ${byToken.exec(read(path))?.[0]}`)
  }
})

/** Files that are a table or a list: these may have any length. */
const tableFiles = [
  'src/api/mcp/mcp-tools.ts',
  'src/config/settings-table.ts',
  'src/database/migrations.ts',
  'src/database/schema.ts',
  'src/git/process/commands.ts',
]

test('files of code have at most 400 lines, tests excepted', () => {
  for (const path of sources.filter((source) => source.startsWith('src/') && !isTest(source))) {
    if (tableFiles.includes(path)) continue
    const lines = read(path).split('\n').length
    assert.ok(lines <= 400, `${path} has ${lines} lines`)
  }
})

test('texts of a run are shortened only where they are masked', () => {
  const cut = /\.(slice|substring)\(0, [^)]*max/i
  for (const path of sources.filter((source) => !isTest(source))) {
    if (!/^src\/(actions\/workflow-engine|workflows|webhooks)\//.test(path)) continue
    assert.ok(!cut.test(read(path)), `${path} shortens a text: use maskAndShorten`)
  }
})

test('there are no leftover notes, suppressions or local paths', () => {
  const unwanted = /\b(TODO|FIXME|XXX|HACK)\b|\/(work|root)\/|@ts-ignore|@ts-nocheck/
  for (const path of files.filter((file) => /\.(ts|md|json|sh)$|^bin\/|^\.ci\//.test(file))) {
    if (path === 'package-lock.json' || path === 'test/rules/tidy.test.ts') continue
    assert.ok(!unwanted.test(read(path)), `${path}: ${unwanted.exec(read(path))?.[0]}`)
  }
})

test('only the module of object ids knows how many digits they have', () => {
  const known = [
    'src/base/object-id.ts',
    'src/git/refs/ref-name.ts',
    'src/git-server/leak-guard/rules.ts',
  ]
  const digits = /\[0-9a-f\]\{(38|40)\}|'0'\.repeat\(40\)|\bidLength = 40|slice\((40|41)\)/
  const others = files.filter(
    (file) => /^src\/.*(?<!\.test)\.ts$/.test(file) && !known.includes(file),
  )
  for (const path of others)
    assert.ok(!digits.test(read(path)), `${path}: ${digits.exec(read(path))?.[0]}`)
})

test('test servers override every setting that depends on the number of cores', () => {
  const values = Object.values<Setting<unknown>>(settings)
  const perCore = values.filter(({ description }) => /per core/.test(description))
  assert.notDeepEqual(perCore, [])
  for (const { variable } of perCore) assert.ok(variable in testSettings, variable)
})

test('files that the documentation mentions exist', () => {
  for (const path of files.filter((file) => file.endsWith('.md'))) {
    for (const [, mentioned = ''] of read(path).matchAll(/`([\w./-]+\.ts)`/g)) {
      const isThere = files.some((file) => file === mentioned || file === `src/${mentioned}`)
      assert.ok(isThere, `${path} mentions ${mentioned}`)
    }
  }
})

test('suites are chosen by tags: no script names a file of tests', () => {
  const { scripts }: { scripts: Record<string, string> } = JSON.parse(read('package.json'))
  for (const [script, command] of Object.entries(scripts))
    assert.ok(!/\.test\b|\{\w+,/.test(command), script)
})

test('names of exports and of files are unique', () => {
  const product = sources.filter((path) => path.startsWith('src/') && !isTest(path))
  // A schema may have the name of the type that it describes.
  for (const kinds of ['type|class|interface', 'const|(?:async )?function\\*?']) {
    const named = new RegExp(`^export (?:${kinds}) (\\w+)`, 'gm')
    // An overloaded function is exported several times.
    const exported = product.flatMap((path) => [
      ...new Set([...read(path).matchAll(named)].map(([, name]) => name)),
    ])
    assert.deepEqual(repeated(exported), [], kinds)
  }
  assert.deepEqual(repeated(product.map((path) => basename(path))), [])
})

// Words that mean something else elsewhere, or nothing: docs/glossary.md has those of the field.
const banned =
  /\b(tells?|telling|told|whoever|whatever|somebody|nobody|doors?|seats?|(?<!(in|single)[- ])flights?|lanes?|tellers?|bells?|desks?|rooms?|so many|under way|let go|comes? to pass)\b/i
/** In tests, `nobody` is also the name of a user. */
const userNobody = /(?<=['"/])nobody\b/g

test('banned words appear in no page and no source, not even within a name', () => {
  const revised = files.filter((path) =>
    path.endsWith('.md')
      ? path !== 'docs/glossary.md'
      : path.endsWith('.ts') &&
        path !== 'test/rules/tidy.test.ts' &&
        path !== 'src/database/migrations.ts',
  )
  for (const path of revised) {
    const text = isTest(path) ? read(path).replace(userNobody, '') : read(path)
    const words = text.replace(/([a-z])([A-Z])/g, '$1 $2')
    assert.ok(!banned.test(words), `${path}: ${banned.exec(words)?.[0]}`)
  }
})

test('an error class has the name of its class, which ends in Error', () => {
  for (const path of sources.filter((source) => source.startsWith('src/') && !isTest(source))) {
    for (const [, name = '', shown] of read(path).matchAll(
      /class (\w+) extends \w*Error \{\s+override readonly name = '(\w+)'/g,
    )) {
      assert.equal(shown, name, path)
      assert.ok(name === 'Problem' || name.endsWith('Error'), `${path}: ${name}`)
    }
  }
})

test('no file has a catch-all name', () => {
  const drawers = /(^|[-/])(utils?|(?<!spawn-)helpers?|manager|misc|common|info)\.ts$/
  assert.deepEqual(
    sources.filter((path) => drawers.test(path)),
    [],
  )
})

function repeated(names: (string | undefined)[]): (string | undefined)[] {
  return names.filter((name, index) => names.indexOf(name) !== index)
}

/** The files of the project that a file imports, also later or as types. */
function importsOf(path: string): string[] {
  const specifiers = read(path).matchAll(/(?:\bfrom |\bimport\(|^import )'([^']+)'/gm)
  return [...specifiers].flatMap(([, specifier = '']) => resolveImport(path, specifier) ?? [])
}

/** The file of the project that an import names; undefined when it names a package. */
function resolveImport(path: string, specifier: string): string | undefined {
  if (specifier.startsWith('.')) return relative(root, join(root, dirname(path), specifier))
  return /^#[\w-].*\.ts$/.test(specifier) ? `src/${specifier.slice(1)}` : undefined
}

function folderOf(path: string): string {
  const [, folder = ''] = path.split('/')
  return folder.replace(/\.ts$/, '')
}

function rowOf(folder: string): number {
  const row = rows.findIndex((names) => names.includes(folder))
  assert.notEqual(row, -1, `${folder} has no place in the order of folders`)
  return row
}

function isDeleted(path: string): boolean {
  try {
    return read(path) === undefined
  } catch {
    return true
  }
}

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}
