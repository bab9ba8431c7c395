// Tags: alone
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { requireRef } from '#access/may.ts'
import { maskAndShorten } from '#actions/secret-masking/mask-and-shorten.ts'
import { createMasker } from '#actions/secret-masking/masker.ts'
import { createGlob } from '#actions/workflow-engine/job-files/glob.ts'
import { createCommandReader } from '#actions/workflow-engine/output/line-commands.ts'
import { createStepOutput } from '#actions/workflow-engine/output/step-output.ts'
import { commonFolder, readPathPatterns } from '#actions/workflow-engine/path-patterns.ts'
import { actionInputs } from '#actions/workflow-engine/planning/evaluate-settings.ts'
import { parseAssignments } from '#actions/workflow-engine/step-files.ts'
import { evaluateText } from '#actions/workflow-parser/expressions/evaluate.ts'
import { createPushBudget, matchesPush } from '#actions/workflow-parser/match-triggers.ts'
import { expandMatrix } from '#actions/workflow-parser/matrix.ts'
import { compilePattern } from '#actions/workflow-parser/reading/filter-pattern.ts'
import { parseWorkflow } from '#actions/workflow-parser/reading/parse.ts'
import { checkRunnable } from '#actions/workflow-parser/runnable.ts'
import type { Action, Template } from '#actions/workflow-parser/workflow.ts'
import { findText } from '#base/find-text.ts'
import { coversPattern, matchesPattern } from '#base/text-pattern.ts'
import { joinRanges } from '#browse/blame/blame-output.ts'
import { scanText } from '#git-server/leak-guard/scan-text.ts'
import { matchesTag } from '#http/headers.ts'
import { protectionsOf } from '#repositories/protection-rules.ts'
import { decideUpdates } from '#repositories/store/decide-updates.ts'
import { filterPaths } from '#web/code/find-view.ts'
import { createAnsiReader } from '#web/render/ansi-log.ts'
import { createMask, maskCommit } from '#webhooks/composing/mask.ts'
import { evaluateRunNames } from '#workflows/starting/run-names.ts'
import { openStepCounter } from '../support/count-steps.ts'

/** Jobs in a chain, each of which uses a chain of actions. */
function checkRunnableOf(jobs: number, actions: number): void {
  const step = (index: number) => ({ kind: 'action', path: String(index) })
  const byPath = list(actions, (index) => [
    String(index),
    { path: String(index), steps: [step(index + 1)], unsupported: [] },
  ])
  const workflow = {
    path: 'a',
    jobs: list(jobs, (index) => ({
      ...{ id: String(index), needs: index === 0 ? [] : [String(index - 1)] },
      ...{ steps: [step(0)], unsupported: [] },
    })),
  }
  checkRunnable([workflow] as never, new Map([['a', workflow]]) as never, new Map(byPath as never))
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const counter = await openStepCounter()
after(() => counter[Symbol.asyncDispose]())

const a = (count: number) => 'a'.repeat(count)
const list = <T>(count: number, one: (index: number) => T) =>
  Array.from({ length: count }, (_, index) => one(index))
const lines = (count: number, one: (index: number) => string) => list(count, one).join('\n')

const position = { file: 'ci.yml', line: 1, column: 1 }
const template = (text: string): Template => ({ text, position })
const status = { success: true, failure: false, cancelled: false }
const scopeOf = (env: Record<string, string>) => ({
  contexts: { env },
  status,
  hashFiles: () => '',
})
const evaluate = (expression: string, env: Record<string, string> = {}) =>
  evaluateText(template(`\${{ ${expression} }}`), scopeOf(env))
const inside = { workspace: '/w', home: '/h', temp: '/t', files: '/f' }
const person = { name: 'a', email: 'a@b.test', at: '' }
const noFilter = {
  ...{ branches: undefined, branchesIgnore: undefined, tags: undefined, tagsIgnore: undefined },
  ...{ paths: undefined, pathsIgnore: undefined },
}
const pushTo = (paths: string[], changedPaths: string[]) =>
  matchesPush(
    { ...noFilter, paths },
    { ref: 'refs/heads/main', changedPaths, isNew: false },
    createPushBudget(),
  )
const inChunks = (secrets: string[], text: string, size: number) => {
  const masked = createMasker(secrets).stream()
  for (let at = 0; at < text.length; at += size) masked.push(Buffer.from(text.slice(at, at + size)))
  masked.end()
}
const principal = (refs: string[]) => ({ refs }) as unknown as Parameters<typeof requireRef>[0]
const protection = (pattern: string) => ({
  kind: 'branch' as const,
  pattern,
  owners: 'any' as const,
  namespace: null,
  requires: [],
  approvals: 0,
  queue: false,
  codeOwners: false,
})
/** Creates and deletes refs in a repository with as many others. */
const decideRefs = (count: number, isAtomic: boolean) => {
  const [none, some] = ['0'.repeat(40), '1'.repeat(40)]
  const named = (kind: string) => list(count, (index) => `refs/tags/${kind}/${index}`)
  const updates = [
    ...named('new').map((ref) => ({ ref, before: none, after: some })),
    ...named('old').map((ref) => ({ ref, before: some, after: none })),
  ]
  const values = new Map([...named('old'), ...named('kept')].map((ref) => [ref, some]))
  decideUpdates(updates, { values, objects: new Map([[some, 'commit']]) }, isAtomic)
}
const stepOutput = (text: string, size: number) => {
  const output = createStepOutput({
    ...{ masker: createMasker(['hunter2']), outputMaxBytes: 1e6, showsDebug: true },
    ...{ emit: async () => {}, onAnnotation: async () => {} },
  })
  return (async () => {
    for (let at = 0; at < text.length; at += size)
      await output.push(Buffer.from(text.slice(at, at + size)))
    await output.end()
  })()
}

/** By the names of the functions: work whose inputs all grow with a number. Its cost must grow no faster. */
const measured: Record<string, (size: number) => unknown> = {
  'createMasker: values that begin alike': (n) =>
    createMasker(list(n, (index) => `${a(40)}${index}b`)).mask(a(50 * n)),
  'createMasker: short values that begin alike': (n) =>
    createMasker(list(n, (index) => `aaaa${index}`)).mask(a(50 * n)),
  'createMasker: words': (n) =>
    createMasker(list(n, (index) => String.fromCharCode(97, 200 + index))).mask(
      'a,'.repeat(50 * n),
    ),
  'createMasker: values within each other': (n) =>
    createMasker(list(n, (index) => `${'abcdefg'.repeat(20).slice(index % 7)}${index}`)).mask(
      'abcdefg'.repeat(10 * n),
    ),
  'createMasker: one long value': (n) => createMasker([`${a(40 * n)}b`]).mask(a(100 * n)),
  'createMasker: small chunks that are held back': (n) => inChunks([`${a(40 * n)}b`], a(80 * n), 2),
  'createMasker: lines of a value': (n) =>
    createMasker([lines(n, (index) => `${a(40)}${index}`)]).mask(a(50 * n)),
  'createMasker: values added to a stream': (n) => {
    const masker = createMasker([`${a(2000)}b`])
    const stream = masker.stream()
    for (let index = 0; index < n; index++) {
      stream.push(Buffer.from(a(20)))
      masker.add(`${a(20)}${index}`)
    }
  },
  'createMasker: the beginning of a text': (n) =>
    createMasker(list(n, (index) => `${a(40)}${index}b`)).maskBeginning(a(50 * n)),
  maskAndShorten: (n) =>
    maskAndShorten(a(50 * n), {
      mask: createMasker(list(n, (index) => `${a(40)}${index}b`)).mask,
      maxLength: 100,
    }),
  'createMask, maskCommit': async (n) => {
    const secrets = Object.fromEntries(list(n, (index) => [`S${index}`, `${a(40)}${index}b`]))
    const commit = { id: '', treeId: '', message: a(50 * n), author: person, committer: person }
    maskCommit(commit, createMask(secrets))
  },
  findText: (n) => findText(a(100 * n), `${a(40 * n)}b`),
  'matchesPattern: one star': (n) => matchesPattern(a(100 * n), `*${a(40 * n)}b*`),
  'matchesPattern: many stars': (n) => matchesPattern(a(100 * n), `${'*a'.repeat(10 * n)}b`),
  coversPattern: (n) => coversPattern(`*${a(40 * n)}b*`, a(100 * n)),
  'requireRef: patterns': (n) =>
    requireRef(principal([...list(n, () => `${'*a'.repeat(20)}b`), '*']), a(100)),
  'protectionsOf: patterns': (n) =>
    protectionsOf(
      `refs/heads/${a(100)}`,
      list(n, () => protection(`${'*a'.repeat(20)}b`)),
    ),
  'createGlob: names': (n) => {
    const matches = createGlob([`**/${'[!z]/**/'.repeat(5)}zz`, '**/*a*a*a*b'], '/w')
    for (const name of list(n, (index) => `${'a/'.repeat(20)}${index}`)) matches(name)
  },
  'createGlob: a long name': (n) =>
    createGlob([`**/${'[!z]/**/'.repeat(5)}zz`, '**/*a*a*a*b'], '/w')(`${'a/'.repeat(20 * n)}a`),
  'createGlob: a long pattern': (n) =>
    createGlob([`**/${'[!z]/'.repeat(2 * n)}zz`, `${'*a'.repeat(2 * n)}`], '/w')('a/'.repeat(50)),
  'createGlob: patterns': (n) =>
    createGlob(
      list(n, (index) => `**/a/${index}`),
      '/w',
    )('a/'.repeat(20)),
  'readPathPatterns: lines': (n) =>
    readPathPatterns(
      lines(n, (index) => `a/${index}`),
      inside,
    ),
  commonFolder: (n) => commonFolder(list(n, (index) => `/a/b/c/${index}`)),
  'compilePattern: a long name': (n) =>
    compilePattern(`${'**/[a-y]'.repeat(10)}z`)('a/'.repeat(5 * n), { left: 1e9 }),
  'compilePattern: a long pattern': (n) =>
    compilePattern(`${'**/[a-y]'.repeat(n / 4)}z`)('a/'.repeat(200), { left: 1e9 }),
  'matchesPush: paths': (n) =>
    pushTo(
      [`${'**a'.repeat(5)}b`],
      list(n, () => a(20)),
    ),
  'matchesPush: patterns': (n) =>
    pushTo(
      list(n, () => `${'**a'.repeat(5)}b`),
      [a(20)],
    ),
  'evaluateText: contains in a text': (n) =>
    evaluate('contains(env.a, env.b)', { a: a(100 * n), b: `${a(40 * n)}b` }),
  'evaluateText: contains in a list': (n) =>
    evaluate("contains(fromJSON(env.a), 'b')", { a: JSON.stringify(list(n, String)) }),
  'evaluateText: join': (n) =>
    evaluate("join(fromJSON(env.a), ',')", { a: JSON.stringify(list(n, String)) }),
  'evaluateText: format': (n) => evaluate("format(env.a, '1')", { a: '{0}{{'.repeat(n) }),
  'evaluateText: fromJSON and toJSON': (n) =>
    evaluate('toJSON(fromJSON(env.a))', { a: JSON.stringify(list(n, String)) }),
  'evaluateText: expressions': (n) =>
    evaluateText(template("${{ format('{0}', env.a) }}".repeat(n)), scopeOf({ a: 'b' })),
  'evaluateRunNames: jobs': (n) => {
    const jobs = list(n, () => ({
      runsOn: template("${{ format('{0}', 'a') }}"),
      unsupported: [],
    }))
    const sources = { workflows: [{ name: 'a', jobs }], calledWorkflows: [] }
    evaluateRunNames(sources as never, scopeOf({}), (text) => text)
  },
  'expandMatrix: large values': (n) =>
    expandMatrix({
      ...{ a: [list(20 * n, String)], b: list(20, String) },
      include: list(20, (index) => ({ a: String(index) })),
    }),
  'checkRunnable: jobs': (n) => checkRunnableOf(n, 1),
  'checkRunnable: actions': (n) => checkRunnableOf(1, n),
  actionInputs: (n) => {
    const inputs = Object.fromEntries(list(n, (index) => [`i${index}`, { default: undefined }]))
    const given = Object.fromEntries(list(n, (index) => [`I${index}`, 'a']))
    actionInputs({ inputs } as unknown as Action, given, scopeOf({}))
  },
  'parseAssignments: texts of several lines': (n) =>
    parseAssignments(
      'GITHUB_ENV',
      lines(n, (index) => `a<<b${index}\nc\nb${index}`),
      String,
    ),
  'parseAssignments: a long text': (n) =>
    parseAssignments('GITHUB_ENV', `a<<b\n${lines(n, () => 'a<<b ')}\nb`, String),
  'createCommandReader: a long line': (n) => createCommandReader()(`::error ${'a=::b,'.repeat(n)}`),
  'createStepOutput: commands': (n) =>
    stepOutput(
      lines(n, () => '::a ::b::c'),
      1000,
    ),
  'createStepOutput: colons in a long line': (n) => stepOutput('::'.repeat(10 * n), 1000),
  'createStepOutput: a long mask': (n) => stepOutput(`::add-mask::${a(100 * n)}`, 100),
  'filterPaths: words and paths': (n) =>
    filterPaths(
      list(n, (index) => ({ path: `${a(50)}/${index}`, name: 'b' })),
      'a '.repeat(n),
    ),
  'scanText: beginnings of credentials': (n) => scanText(Buffer.from('svc_ghp_sk-'.repeat(n))),
  'decideUpdates: one after another': (n) => decideRefs(n, false),
  'decideUpdates: all or none': (n) => decideRefs(n, true),
  matchesTag: (n) => matchesTag(list(n, (index) => `W/"${index}"`).join(), 'W/"a"'),
  joinRanges: (n) =>
    joinRanges(list(n, (index) => ({ start: index, count: 1, commit: 'a', path: 'b' })) as never),
  'createAnsiReader: a long line': (n) => createAnsiReader()('\u001b[1ma\u001b[0;'.repeat(n)),
  'parseWorkflow: steps': (n) =>
    parseWorkflow({
      path: '.svc/workflows/ci.yml',
      text: `on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n${lines(n, (index) => `      - { id: s${index}, run: echo }`)}\n`,
    }),
}

/** Functions with such names that need no measurement, and why. */
const exempt: Record<string, string[]> = {
  'compare, in git or a worker, within its limits': [
    ...['createSearch', 'compareCommits', 'highlightDiff', 'toComparedLine', 'createDiffParser'],
    ...['createSearchParser', 'readDiff', 'createCompareVersions'],
  ],
  'measured by what they call': [
    ...['createNameMask', 'hashMatching', 'patternFault', 'formatText', 'claimMismatch'],
  ],
  'of the service itself, or of bounded texts': [
    ...[
      'matchPages',
      'compareVersions',
      'compareGitVersions',
      'toBranchPattern',
      'toTagPattern',
      'toStoredPattern',
    ],
    ...['toRefPatterns', 'covers', 'coversAll', 'filtersOf', 'containsPath', 'joinNames'],
    ...['expandJob', 'planUnexpanded', 'createFilter', 'readPushFilter'],
  ],
}

const ratioMax = 2.4
const sizes = [40, 80, 160] as const

for (const [name, work] of Object.entries(measured)) {
  test(`the cost of ${name} grows no faster than its inputs`, async () => {
    // What happens once, such as loading a module or creating a table, is left out.
    await work(sizes[0])
    const steps: number[] = []
    for (const size of sizes) steps.push(await counter.count(() => work(size)))
    const [small = 0, middle = 0, large = 0] = steps
    const ratio = (large - middle) / Math.max(middle - small, sizes[0])
    assert.ok(ratio < ratioMax, `${steps.join(', ')} steps: ${ratio.toFixed(2)} times as many more`)
  })
}

test('a function whose cost grows with the product of its inputs is found', async () => {
  const { count } = counter
  const steps = async (size: number) =>
    count(() => list(size, () => findText(a(100 * size), `${a(300)}b`)))
  const [small, middle, large] = [await steps(4), await steps(8), await steps(16)]
  assert.ok((large - middle) / (middle - small) > 3)
})

test('every function that matches, masks, searches or expands is measured', () => {
  const known = new Set(
    [...Object.keys(measured).map((name) => name.replace(/:.*/, '')), ...Object.values(exempt)]
      .flat()
      .flatMap((names) => names.split(', ')),
  )
  const named =
    /^export (?:async )?function\*? (\w*(?:match|mask|glob|pattern|filter|cover|contain|search|compare|expand|findText|hashFiles)\w*)/gim
  const found = globSync('src/**/*.ts', { cwd: root })
    .filter((path) => !/\.test\.ts$|^src\/(cli|config)\//.test(path))
    .flatMap((path) => [...readFileSync(`${root}/${path}`, 'utf8').matchAll(named)])
    .flatMap(([, name = '']) => (/Routes$/.test(name) ? [] : name))
  assert.deepEqual([...new Set(found)].filter((name) => !known.has(name)).sort(), [])
})
