import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { operations } from '#cli/operations/client-operations.ts'
import { isPaged } from '#cli/operations/operation-request.ts'
import { type ClientHome, loggedIn } from '../support/client-home.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service
let home: ClientHome
/** The numbers of all events. */
let all: number[]

before(async () => {
  service = await startService()
  home = await loggedIn(service)
  for (const name of ['one', 'two', 'three', 'four', 'five'])
    await service.admin.post('/repos', { name })
  const { body } = await service.admin.get('/events')
  all = body.map(({ seq }: { seq: number }) => seq)
})

after(async () => {
  await home[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

/** The numbers at the start of the lines that a command prints, and what it says on standard error. */
async function listed(words: string, options: { columns?: number; env?: Record<string, string> }) {
  const { code, out, err } = await home.run(words.split(' '), options)
  assert.equal(code, 0, err)
  return { numbers: (out.match(/^\d+/gm) ?? []).map(Number), err }
}

test('events are newest first for a person, oldest first for a program, and say how they go on', async () => {
  const terminal = { columns: 100 }
  const newestFirst = all.toReversed()
  const end = all.length - 2
  for (const [words, options, expected, err] of [
    ['events', {}, all, ''],
    ['events', terminal, newestFirst, ''],
    ['events --limit 2', {}, all.slice(0, 2), `There are newer events: --after ${all[1]}\n`],
    [
      'events --limit 2',
      terminal,
      newestFirst.slice(0, 2),
      `There are older events: --before ${all[end]}\n`,
    ],
    [`events --limit ${all.length}`, {}, all, ''],
    [`events --limit ${all.length}`, terminal, newestFirst, ''],
    // More than a page of the API.
    ['events --limit 5000', terminal, newestFirst, ''],
    ['events --after 1 --limit 1', terminal, [2], 'There are newer events: --after 2\n'],
    ['events --before 3 --limit 1', {}, [2], 'There are older events: --before 2\n'],
    ['events --before 3', {}, [2, 1], ''],
    [`events --after ${all.at(-1)}`, {}, [], ''],
  ] as const)
    assert.deepEqual(await listed(words, options), { numbers: expected, err }, words)
  const asJson = await home.run(['events', '--limit', '2', '--json'], terminal)
  assert.equal(asJson.err, '')
  assert.deepEqual(
    JSON.parse(asJson.out).map(({ seq }: { seq: number }) => seq),
    all.slice(0, 2),
  )
})

test('following what a list says about the rest shows each event once', async () => {
  for (const options of [{}, { columns: 100 }]) {
    const seen: number[] = []
    for (let rest = ''; ; ) {
      const { numbers, err } = await listed(`events --limit 2${rest}`, options)
      seen.push(...numbers)
      const [, place] = /^There are \w+ events: (--\w+ \d+)\n$/.exec(err) ?? []
      if (place === undefined) break
      rest = ` ${place}`
    }
    assert.deepEqual(seen, options.columns === undefined ? all : all.toReversed())
  }
})

test('the audit log says that it goes on, of a server and of a data directory', async () => {
  const goesOn = 'The list goes on after these 2; --limit shows more.\n'
  for (const server of ['', ' --server local']) {
    const env = { SVC_DATA_DIR: service.dataDir, SVC_URL: service.url }
    const options = server === '' ? {} : { env }
    for (const one of [options, { ...options, columns: 100 }]) {
      const { numbers, err } = await listed(`audit --limit 2${server}`, one)
      assert.deepEqual([numbers.length, err], [2, goesOn], server)
      assert.ok(Number(numbers[0]) > Number(numbers[1]))
      const whole = await listed(`audit --limit 1000${server}`, one)
      assert.deepEqual([whole.numbers.slice(0, 2), whole.err], [numbers, ''])
      const exact = await listed(`audit --limit ${whole.numbers.length}${server}`, one)
      assert.deepEqual(exact, whole)
    }
    const asJson = await home.run(`audit --limit 2 --json${server}`.split(' '), options)
    assert.deepEqual([JSON.parse(asJson.out).length, asJson.err], [2, ''])
  }
})

/** Commands with a limit that are no such list, and why. */
const others: Record<string, string> = {
  events: 'says where the list goes on',
  'browse search': 'names the limits that it met',
  'browse compare': 'prints how many commits there are',
  'changes waiting': 'has those that were updated last; each repository lists all',
  'repos activity': 'the API has a maximum, which is the default',
}

test('every list with a limit says that it goes on', async () => {
  const withLimit = operations.filter(({ options = {} }) => '--limit <number>' in options)
  for (const operation of withLimit) {
    if (operation.command in others) continue
    assert.ok('table' in operation && isPaged(operation), operation.command)
  }
})
