// Tags: exhaustive
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Engine, startEngine } from '../support/engine.ts'
import { without } from '../support/programs.ts'
import { expectations } from './expectations.ts'

const skip = without('make') || without('python')
const root = fileURLToPath(new URL('.//', import.meta.url))

let engine: Engine

before(async () => {
  engine = await startEngine()
})

after(() => engine[Symbol.asyncDispose]())

for (const { project, plan = {}, conclusion, jobs, lines } of expectations) {
  const { event = 'push', ref = 'refs/heads/main' } = plan
  test(`the workflows of ${project} run unchanged (${event}, ${ref})`, { skip }, async () => {
    const result = await engine.run({
      project: join(root, project),
      workflows: await textsIn(join(root, project, '.svc/workflows')),
      actions: await actionsOf(join(root, project)),
      plan,
    })
    assert.equal(result.conclusion, conclusion, result.log)
    assert.deepEqual(result.jobConclusions, jobs)
    for (const [job, wanted] of Object.entries(lines)) {
      const prefix = Object.keys(jobs).length > 1 ? `${job} | ` : ''
      let at = 0
      for (const line of wanted) {
        const found = result.log.indexOf(`\n${prefix}${line}`, at)
        assert.notEqual(found, -1, `${line} is missing in\n${result.log}`)
        at = found + 1
      }
    }
  })
}

test('every project is expected to do something', async () => {
  const entries = await readdir(root, { withFileTypes: true })
  const projects = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
  assert.deepEqual(projects.sort(), [...new Set(expectations.map(({ project }) => project))].sort())
})

async function textsIn(folder: string): Promise<Record<string, string>> {
  const names = (await readdir(folder)).sort()
  const texts = names.map(async (name) => [name, await readFile(join(folder, name), 'utf8')])
  return Object.fromEntries(await Promise.all(texts))
}

async function actionsOf(project: string): Promise<Record<string, string>> {
  const folder = '.github/actions'
  if (!existsSync(join(project, folder))) return {}
  const names = await readdir(join(project, folder))
  const texts = names.map(async (name) => [
    `${folder}/${name}`,
    await readFile(join(project, folder, name, 'action.yml'), 'utf8'),
  ])
  return Object.fromEntries(await Promise.all(texts))
}
