import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { apiOperations } from '../../../scripts/api-operations.ts'
import { type InProcess, startInProcess } from '../../../test/support/in-process.ts'
import { optionValues } from '../completions.ts'
import { operations } from './client-operations.ts'
import { choicesOf, type DescribedOperation, optionNameOf } from './operation-request.ts'

/** Operations that have no command, and why. */
const withoutCommand: Record<string, string> = {
  exchangeToken: 'for jobs elsewhere, which have curl',
  claimRun: 'for runners: svc runner',
  getRunSource: 'for runners: svc runner',
  reportRun: 'for runners: svc runner',
  getRunOrders: 'for runners: svc runner',
  releaseRun: 'for runners: svc runner',
  saveArtifact: 'for runners: svc runner',
  listArtifactsOfRun: 'for runners: svc runner',
  getArtifactOfRun: 'for runners: svc runner',
  saveCache: 'for runners: svc runner',
  restoreCache: 'for runners: svc runner',
  keepWorkspace: 'for runners: svc runner',
  claimShell: 'for runners: svc runner',
  readShellInput: 'for runners: svc runner',
  writeShellOutput: 'for runners: svc runner',
  endShell: 'for runners: svc runner',
  getIdToken: 'for steps of workflows',
  getStepNetwork: 'svc run --check',
  getOpenIdConfiguration: 'for verifiers of ID tokens',
  getSigningKeys: 'for verifiers of ID tokens',
  advertiseRefs: 'for git: git clone, git push',
  uploadPack: 'for git: git clone, git fetch',
  uploadArchive: 'for git: git archive --remote',
  receivePack: 'for git: git push',
  batchLfsObjects: 'for git-lfs',
  verifyLfsObject: 'for git-lfs',
  uploadLfsObject: 'for git-lfs',
  downloadLfsObject: 'for git-lfs',
  createLfsLock: 'for git-lfs',
  listLfsLocks: 'for git-lfs',
  verifyLfsLocks: 'for git-lfs',
  deleteLfsLock: 'for git-lfs',
  getLfs: 'not supported',
  postLfs: 'not supported',
  createLoginCode: 'svc login --web',
  listCombinedStatuses: 'svc statuses list',
  getDocs: 'a page for browsers',
  callMcp: 'for agents: svc mcp',
  getLlmsText: 'a page for agents',
}

let service: InProcess

before(async () => {
  service = await startInProcess()
})

after(() => service[Symbol.asyncDispose]())

test('every operation of the API has a command', async () => {
  const { body } = await service.admin.get('/openapi.json')
  const ids = Object.values<Record<string, { operationId: string }>>(body.paths).flatMap((path) =>
    Object.values(path).map(({ operationId }) => operationId),
  )
  const covered = new Set(operations.flatMap((operation) => operation.operations))
  const missing = ids.filter((id) => !covered.has(id) && !(id in withoutCommand))
  assert.deepEqual(missing, [])
  const unknown = [...covered, ...Object.keys(withoutCommand)].filter((id) => !ids.includes(id))
  assert.deepEqual(unknown, [])
  assert.deepEqual(
    Object.keys(withoutCommand).filter((id) => covered.has(id)),
    [],
  )
})

test('every option of a query or a body has an option of the command', async () => {
  const { body } = await service.admin.get('/openapi.json')
  for (const path of Object.values<Record<string, ApiOperation>>(body.paths)) {
    for (const operation of Object.values(path)) {
      if (operation.operationId in withoutCommand) continue
      const commands = operations.filter((one) => one.operations.includes(operation.operationId))
      const words = commands.flatMap((command) => [
        ...(command.arguments ?? []).map((name) => name.replace(/[[\]]/g, '')),
        ...Object.keys(command.options ?? {}).map((flags) => flags.split(' ')[0]?.slice(2) ?? ''),
      ])
      for (const field of fieldsOf(operation)) {
        const option = (renamed[field] ?? field).replace(
          /[A-Z]/g,
          (letter) => `-${letter.toLowerCase()}`,
        )
        assert.ok(
          words.includes(option) ||
            words.includes(`no-${option}`) ||
            words.includes(option.replace(/(?:ies|s)$/, (end) => (end === 'ies' ? 'y' : ''))) ||
            field in elsewhere,
          `${operation.operationId}: ${field} (${words.join(' ')})`,
        )
      }
    }
  }
})

test('what commands know of the routes is what the routes are', async () => {
  const path = new URL('api-operations.json', import.meta.url)
  const generated = apiOperations(service.routes)
  assert.equal(await readFile(path, 'utf8'), generated, 'npm run docs brings it up to date')
})

test('where the API accepts certain values, the option of the command offers them', () => {
  const described: Record<string, DescribedOperation> = JSON.parse(apiOperations(service.routes))
  let offered = 0
  for (const command of operations) {
    for (const id of command.operations) {
      const { query, body } = described[id] ?? assert.fail(id)
      for (const [name, { choices }] of Object.entries({ ...query, ...body })) {
        for (const [flags, row] of Object.entries(command.options ?? {})) {
          const isOfField = [name, name.replace(/s$/, '')].includes(optionNameOf(flags))
          if (!choices || !isOfField || !flags.includes('<')) continue
          const own = typeof row === 'string' ? undefined : row.choices
          const values =
            own ?? choicesOf(command, flags) ?? optionValues[`--${optionNameOf(flags)}`]
          assert.ok(values, `${id}: ${flags} has ${choices.join(' ')}`)
          offered++
        }
      }
    }
  }
  assert.ok(offered > 10, String(offered))
})

type ApiOperation = {
  operationId: string
  parameters?: { name: string; in: string }[]
  requestBody?: { content: Record<string, { schema?: { properties?: object } }> }
}

/** Fields whose option has another word, or that a command fills in itself. */
const renamed: Record<string, string> = {
  secret: 'with-secret',
  enabled: 'enable',
  jobs: 'failed',
  keepPreviousSecretSeconds: 'keep-previous-secret',
  publicKey: 'key',
  q: 'text',
}
const elsewhere: Record<string, string> = {
  cursor: 'the client reads all pages',
  limit: 'the client reads all pages, unless there is --limit',
  wait: 'runs watch, events --follow',
  offset: 'runs watch',
  terminal: 'runs shell, of the terminal on which it runs',
  start: 'runs shell, of standard input',
  data: 'runs shell, of standard input',
  end: 'runs shell, of standard input',
  after: 'runs shell, events --after',
  value: 'standard input or a prompt',
  contents: 'svc run --check',
  follow: 'runs watch, events --follow',
  states: 'for programs that show the steps of a run apart',
  changes: 'commit --add, --delete, --move',
  disabled: 'users disable, users enable',
}

function fieldsOf({ parameters = [], requestBody }: ApiOperation): string[] {
  const query = parameters.filter((one) => one.in === 'query').map(({ name }) => name)
  const contents = Object.values(requestBody?.content ?? {})
  return [...query, ...contents.flatMap(({ schema }) => Object.keys(schema?.properties ?? {}))]
}
