import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { exhaustive } from '../../../../test/support/exhaustive.ts'
import { temporaryFolder } from '../../../../test/support/git.ts'
import { evaluateText } from '../../workflow-parser/expressions/evaluate.ts'
import { createJobFiles } from './job-files.ts'

test('expressions get the hashes of files, also those that depend on other hashes', async () => {
  await using site = await createSite()
  const { evaluate } = site
  const hash = await evaluate("hashFiles('a')")
  assert.match(hash, /^[0-9a-f]{64}$/)
  assert.equal(await evaluate("hashFiles('*', '!b')"), hash)
  assert.equal(await evaluate("hashFiles('none')"), '')
  assert.equal(
    await evaluate(`hashFiles(case(hashFiles('a') == '${hash}', 'b', 'none')) != ''`),
    'true',
  )
  assert.equal(await evaluate(`fromJSON(case(hashFiles('b') == '', '', '7'))`), '7')
  await assert.rejects(evaluate("fromJSON(hashFiles('none'))"), /fromJSON got an empty string/)
})

test('a hash is known until files may have changed', async () => {
  await using site = await createSite()
  const before = await site.evaluate("hashFiles('a')")
  await writeFile(join(site.path, 'a'), 'changed')
  assert.equal(await site.evaluate("hashFiles('a')"), before)
  site.files.forgetHashes()
  assert.notEqual(await site.evaluate("hashFiles('a')"), before)
})

test('all calls of a job share one budget', async () => {
  await using site = await createSite()
  await writeFile(join(site.path, 'large'), Buffer.alloc(300 * 1024 ** 2))
  for (const pattern of ['large', 'large*', 'l*'])
    assert.match(await site.evaluate(`hashFiles('${pattern}')`), /^[0-9a-f]{64}$/)
  site.files.forgetHashes()
  const more = site.evaluate("hashFiles('large')")
  await assert.rejects(more, /hashFiles failed: there is too much to read\.$/)
})

test(
  'the runner has time for other runs while patterns are compared with deep folders',
  exhaustive,
  async () => {
    await using site = await createSite()
    const folder = Array.from({ length: 900 }, () => 'a').join('/')
    const names = Array.from({ length: 10_000 }, (_, index) => `${folder}/${index}`)
    const patterns = Array.from({ length: 200 }, (_, index) => `**/${'[!z]/'.repeat(400)}${index}z`)
    let isDone = false
    const matching = site.files.match(names, patterns).finally(() => {
      isDone = true
    })
    matching.catch(() => {})
    let turns = 0
    for (; turns < 100 && !isDone; turns++) await new Promise(setImmediate)
    assert.equal(turns, 100)
    await assert.rejects(matching, /^Error: The search for the files took too long; use fewer/)
    assert.deepEqual(await site.files.match(['a', 'b/c', 'd'], ['b', 'd']), [1, 2])
  },
)

test('patterns that are too many are an error of their call alone', async () => {
  await using site = await createSite()
  const many = 'a\n'.repeat(1001)
  await assert.rejects(site.files.match(['a'], [many]), /There are more than 1000 patterns/)
  await assert.rejects(
    site.files.evaluate(() => site.files.hashFiles([many])),
    /there are more than 1000 patterns/,
  )
  assert.notEqual(await site.evaluate("hashFiles('a')"), '')
})

test('a job that is killed does not wait for files', async () => {
  const stop = new AbortController()
  await using site = await createSite(stop.signal)
  const evaluation = site.evaluate("hashFiles('a')")
  stop.abort(new Error('killed'))
  await assert.rejects(evaluation, /killed/)
})

async function createSite(signal: AbortSignal = new AbortController().signal) {
  const folder = await temporaryFolder()
  await writeFile(join(folder.path, 'a'), 'one')
  await writeFile(join(folder.path, 'b'), 'two')
  const { path } = folder
  const own = { workspace: path, home: path, temp: path, files: path }
  const files = createJobFiles(
    { inside: { ...own, workspace: '/workspace' }, outside: own },
    signal,
  )
  const status = { success: true, failure: false, cancelled: false }
  return {
    path,
    files,
    evaluate: (expression: string) =>
      files.evaluate(() =>
        evaluateText(
          { text: `\${{ ${expression} }}`, position: { file: 'ci.yml', line: 1, column: 1 } },
          { contexts: {}, status, hashFiles: files.hashFiles },
        ),
      ),
    async [Symbol.asyncDispose]() {
      await files[Symbol.asyncDispose]()
      await folder[Symbol.asyncDispose]()
    },
  }
}
