import assert from 'node:assert/strict'
import { registerHooks } from 'node:module'
import { test } from 'node:test'
import { parseWorkflow } from './reading/parse.ts'

// The package of GitHub imports JSON without saying so, which only its bundlers accept.
registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    return specifier.endsWith('.json') ? { ...found, importAttributes: { type: 'json' } } : found
  },
})
const github = await import('@actions/workflow-parser')

/** Whether GitHub's own parser accepts a file, by its schema. */
function isAccepted(content: string): boolean {
  const trace = new github.NoOperationTraceWriter()
  const { context } = github.parseWorkflow({ name: 'ci.yml', content }, trace)
  return context.errors.getErrors().length === 0
}

const run = 'steps: [{ run: x }]'
/** A job that runs, beside the one in question. */
const usual = `usual: { runs-on: x, ${run} }`
const inFile = (entry: string) => `on: push\n${entry}\njobs: { ${usual} }`
const inOn = (entry: string) => `on: { push: , ${entry} }\njobs: { ${usual} }`
const inJob = (entry: string) => {
  const [key = ''] = entry.split(':')
  const rest = ['runs-on: x', run].filter((one) => !one.startsWith(`${key}:`))
  return `on: push\njobs: { ${usual}, a: { ${[entry, ...rest].join(', ')} } }`
}
const inCall = (entry: string) => {
  const uses = entry.startsWith('uses') ? '' : 'uses: ./.github/workflows/a.yml, '
  return `on: push\njobs: { ${usual}, a: { ${uses}${entry} } }`
}
const inStep = (entry: string, work: string) =>
  inJob(`steps: [{ ${entry.startsWith(work.slice(0, 4)) ? '' : `${work}, `}${entry} }]`)

/** The keys of each place, and a file with an entry there. */
const places: Record<string, [keys: string, file: (entry: string) => string]> = {
  file: ['name run-name env defaults concurrency permissions', inFile],
  on: ['workflow_dispatch schedule workflow_call', inOn],
  'on.push': [
    'branches branches-ignore tags tags-ignore paths paths-ignore',
    (entry) => `on: { push: { ${entry} } }\njobs: { ${usual} }`,
  ],
  'on.workflow_dispatch.inputs.i': [
    'type description required options',
    (entry) => inOn(`workflow_dispatch: { inputs: { i: { ${entry} } } }`),
  ],
  'on.workflow_call.outputs.o': [
    'value',
    (entry) => inOn(`workflow_call: { outputs: { o: { ${entry} } } }`),
  ],
  'on.schedule': ['cron', (entry) => inOn(`schedule: [{ ${entry} }]`)],
  defaults: ['run', (entry) => inFile(`defaults: { ${entry} }`)],
  'defaults.run': ['shell working-directory', (entry) => inFile(`defaults: { run: { ${entry} } }`)],
  'jobs.a': [
    'name needs if env defaults outputs strategy timeout-minutes continue-on-error permissions container services steps runs-on',
    inJob,
  ],
  'jobs.a of a call': ['with secrets uses strategy', inCall],
  'jobs.a.strategy': [
    'matrix fail-fast max-parallel',
    (entry) =>
      inJob(`strategy: { ${entry.startsWith('matrix') ? '' : 'matrix: { m: [1] }, '}${entry} }`),
  ],
  'jobs.a.strategy.matrix': [
    'm include exclude',
    (entry) => inJob(`strategy: { matrix: { v: [1], ${entry} } }`),
  ],
  'jobs.a.runs-on': ['labels', (entry) => inJob(`runs-on: { ${entry} }`)],
  'a step with run': [
    'id name if env timeout-minutes continue-on-error run shell working-directory',
    (entry) => inStep(entry, 'run: x'),
  ],
  'a step with uses': ['with uses', (entry) => inStep(entry, 'uses: ./a')],
}

const values: Record<string, string> = {
  'no value': '',
  'an empty text': '""',
  'a text': 'xyz',
  'a number': '3',
  zero: '0',
  true: 'true',
  'an empty list': '[]',
  'a list': '[xyz]',
  'a list of numbers': '[1, 2]',
  'a list of a negated pattern': '["a", "!b"]',
  'an empty mapping': '{}',
  'a mapping': '{ a: b }',
  'a mapping with an odd name': '{ "a b": c }',
  'an expression': '"${{ fromJSON(github.ref) }}"',
  'a text with an expression': '"a ${{ github.ref }}"',
}

/** What GitHub accepts and svc refuses: docs/design/public-workflows.md has the reasons. */
const refused: Record<string, string> = {
  // Faults that GitHub finds when it reads the names, or when the job starts.
  'a step with run: id': 'a number, zero',
  'a step with run: if': 'a text, a text with an expression',
  'a step with run: shell': 'a text',
  'a step with uses: uses': 'a text, a number, zero, true',
  'defaults.run: shell': 'a text',
  'jobs.a of a call: strategy': 'a text with an expression',
  'jobs.a of a call: uses': 'a text, a number, zero, true',
  'jobs.a: if': 'a text, a text with an expression',
  'jobs.a: needs':
    'a text, a number, zero, true, a list, a list of numbers, a list of a negated pattern',
  'jobs.a: strategy': 'a text with an expression',
  'on.schedule: cron': 'a text, a number, zero, true',
  'on.workflow_dispatch.inputs.i: options':
    'an empty list, a list, a list of numbers, a list of a negated pattern',
  // Values with which nothing would run, or nothing would have a name.
  'a step with run: timeout-minutes': 'zero',
  'file: name': 'an empty text',
  'jobs.a.runs-on: labels': 'an empty list',
  'jobs.a.strategy.matrix: m': 'an empty list',
  'jobs.a.strategy: matrix': 'an empty mapping',
  'jobs.a.strategy: max-parallel': 'zero',
  'jobs.a: runs-on': 'an empty list',
  'jobs.a: steps': 'an empty list',
  'jobs.a: timeout-minutes': 'zero',
  'on.push: branches': 'an empty list',
  'on.push: branches-ignore': 'an empty list',
  'on.push: paths': 'an empty list',
  'on.push: paths-ignore': 'an empty list',
  'on.push: tags': 'an empty list',
  'on.push: tags-ignore': 'an empty list',
  'on.workflow_call.outputs.o: value': 'no value',
  'on: schedule': 'an empty list',
  // Names that no shell can read.
  'a step with run: env': 'a mapping with an odd name',
  'file: env': 'a mapping with an odd name',
  'jobs.a: env': 'a mapping with an odd name',
}

test('what GitHub accepts is accepted, but for the differences that are decided', () => {
  const found: Record<string, string> = {}
  for (const [place, [keys, file]] of Object.entries(places)) {
    for (const key of keys.split(' ')) {
      const only = Object.entries(values).filter(([, value]) => {
        const text = file(`${key}: ${value}`)
        return isAccepted(text) && parseWorkflow({ path: 'ci.yml', text }).faults.length > 0
      })
      if (only.length > 0) found[`${place}: ${key}`] = only.map(([kind]) => kind).join(', ')
    }
  }
  assert.deepEqual(found, refused)
})
