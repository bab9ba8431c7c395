// Tags: exhaustive
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { startBrowseSite } from '../support/browse-site.ts'
import { spawnGit } from '../support/git.ts'
import { assertFrugal } from '../support/memory.ts'
import { toRounds } from '../support/rounds.ts'

type Site = Awaited<ReturnType<typeof startBrowseSite>>

let site: Site

before(async () => {
  site = await startBrowseSite({ SVC_BROWSE_SECONDS: '60' })
})

after(() => site[Symbol.asyncDispose]())

const mib = 1024 * 1024
const bodyMaxBytes = 3 * mib

/** Pushes a branch with two commits, whose files are written in parts; returns the address of the diff of the second. */
async function pushChange(
  branch: string,
  write: (put: Put) => Promise<void>,
  to: Site = site,
): Promise<string> {
  const child = spawnGit(to.path, ['fast-import', '--quiet'])
  const ended = once(child, 'close')
  const put: Put = async (text) => {
    if (!child.stdin.write(text)) await once(child.stdin, 'drain')
  }
  await put(`commit refs/heads/${branch}\nmark :1\ncommitter A <a@x> 1 +0000\ndata 0\n`)
  await put(`commit refs/heads/${branch}\ncommitter A <a@x> 2 +0000\ndata 0\nfrom :1\n`)
  await write(put)
  child.stdin.end('\n')
  const [exitCode] = await ended
  assert.equal(exitCode, 0)
  await to.push(branch)
  return `/repos/site/commits/${await to.git('rev-parse', branch)}?diff=1`
}

type Put = (text: string | Buffer) => Promise<void>

/** Requests a diff, which has to be within limits, while the server answers others and its memory is bounded. */
async function readDiff(address: string, { service, admin }: Site = site) {
  let diff: Diff = { files: [], fileCount: null, additions: null, limitsReached: [] }
  await assertFrugal(
    service,
    async () => {
      let isDone = false
      const reading = admin.get(address).finally(() => {
        isDone = true
      })
      let answered = 0
      while (!isDone) {
        assert.equal((await fetch(`${service.url}/health`)).status, 200)
        answered += 1
        await setTimeout(20)
      }
      const { status, text, body } = await reading
      assert.equal(status, 200, text.slice(0, 1000))
      assert.ok(answered > 0 && text.length < bodyMaxBytes, String(text.length))
      diff = body.diff
    },
    150 * mib,
  )
  return diff
}

type Diff = {
  files: {
    path: string
    isBinary: boolean
    additions: number | null
    truncated: string | null
    hunks: { lines: string[]; cutLines?: number[] }[]
  }[]
  fileCount: number | null
  additions: number | null
  limitsReached: string[]
}

test('a diff of 50 MB is counted, and shown as far as the limits allow', async () => {
  const line = `${'x'.repeat(99)}\n`
  const address = await pushChange('large', async (put) => {
    for (let file = 0; file < 50; file++)
      await put(
        `M 100644 inline f${file}\ndata ${mib}\n${line.repeat(mib / 100 + 1).slice(0, mib)}\n`,
      )
  })
  const diff = await readDiff(address)
  assert.deepEqual([diff.fileCount, diff.files.length], [50, 50])
  assert.equal(diff.additions, 50 * Math.ceil(mib / 100))
  assert.deepEqual(diff.limitsReached.toSorted(), ['bytes', 'response'])
  for (const file of diff.files) {
    assert.equal(file.additions, Math.ceil(mib / 100))
    assert.ok(file.truncated)
  }
  const alone = await readDiff(`${address}&path=f49`)
  assert.deepEqual([alone.limitsReached, alone.files[0]?.truncated], [[], null])
})

test('a diff of 90 MB is read up to a limit', async () => {
  const line = `${'a'.repeat(15)}\n`
  const lines = (10 * mib) / line.length
  const address = await pushChange('larger', async (put) => {
    for (let file = 0; file < 9; file++)
      await put(`M 100644 inline f${file}\ndata ${10 * mib}\n${line.repeat(lines)}\n`)
  })
  const diff = await readDiff(address)
  assert.deepEqual([diff.fileCount, diff.additions], [9, null])
  assert.ok(diff.limitsReached.includes('scan'))
  assert.deepEqual([diff.files[0]?.additions, diff.files[8]?.additions], [lines, null])
  assert.equal(diff.files[8]?.truncated, 'scan')
})

test('a file that takes more memory than git may use leaves the list of files', async () => {
  await using limited = await startBrowseSite({ SVC_GIT_MEMORY_MAX: '64MiB' })
  const size = 100
  const putHuge = async (put: Put) => {
    await put(`M 100644 inline huge\ndata ${size * mib}\n`)
    for (let part = 0; part < size; part++) await put(Buffer.alloc(mib))
    await put('\n')
  }
  const putAll = async (put: Put) => {
    for (const name of ['a', 'b', 'z']) await put(`M 100644 inline ${name}\ndata 2\nx\n\n`)
    await putHuge(put)
  }
  const alone = await pushChange('alone', putHuge, limited)
  const all = await pushChange('all', putAll, limited)
  for (const [address, additions] of [
    // Of `b`, it is not known whether its patch was complete.
    [all, [1, null, null, null]],
    [`${all}&path=huge`, [null]],
    [alone, [null]],
  ] as const) {
    const diff = await readDiff(address, limited)
    assert.deepEqual([diff.fileCount, diff.limitsReached], [additions.length, ['memory']])
    assert.deepEqual(
      diff.files.map((file) => file.additions),
      additions,
    )
    assert.equal(diff.files.at(-1)?.truncated, 'memory')
  }
})

test('of very many changed files the first are listed, and all are counted, or the limit is said', async () => {
  const count = toRounds(8000)
  const address = await pushChange('many', async (put) => {
    for (let file = 0; file < count; file++)
      await put(`M 100644 inline d${file % 300}/${file}\ndata 2\nx\n\n`)
  })
  const diff = await readDiff(address)
  assert.deepEqual([diff.fileCount, diff.files.length], [count, 1000])
  const isCounted = diff.additions !== null
  if (isCounted) assert.equal(diff.additions, count)
  assert.deepEqual(diff.limitsReached, isCounted ? ['files'] : ['files', 'time'])
  // The listed ones are complete, also when the others were not all counted.
  for (const file of diff.files) assert.deepEqual([file.additions, file.truncated], [1, null])
  const path = `d${(count - 1) % 300}/${count - 1}`
  const last = await readDiff(`${address}&path=${path}`)
  assert.deepEqual(
    last.files.map(({ path }) => path),
    [path],
  )
})

test('a line of 15 MB is cut, and one of 50 MB is in a file that is not compared', async () => {
  const address = await pushChange('long', async (put) => {
    await put(`M 100644 inline long\ndata ${15 * mib}\n${'x'.repeat(15 * mib)}\n`)
    await put(`M 100644 inline longer\ndata ${50 * mib}\n`)
    for (let part = 0; part < 50; part++) await put('y'.repeat(mib))
    await put('\n')
  })
  const diff = await readDiff(address)
  const [long, longer] = diff.files
  assert.deepEqual([long?.additions, long?.truncated, long?.hunks[0]?.cutLines], [1, 'line', [0]])
  assert.equal(long?.hunks[0]?.lines[0]?.length, 2000)
  assert.deepEqual([longer?.isBinary, longer?.hunks], [true, []])
})

test('a changed blob of 64 MB, in the soak of 1 GB, is not read', async () => {
  const size = toRounds(64)
  const address = await pushChange('blob', async (put) => {
    await put(`M 100644 inline huge\ndata ${size * mib}\n`)
    const part = Buffer.alloc(mib)
    for (let index = 0; index < size; index++) await put(part)
    await put('\n')
  })
  const diff = await readDiff(address)
  assert.deepEqual([diff.files[0]?.path, diff.files[0]?.isBinary], ['huge', true])
})
