import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { createProject } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { openObjects } from '../objects/object-reader.ts'
import { gitCommands } from '../process/commands.ts'
import { createGit } from '../process/git-process.ts'
import { answerObjectInfo } from './object-sizes.ts'
import { delimiterPacket, flushPacket, packet } from './pkt-line.ts'

const git = createGit({ settings: gitLimits, owner: 'test', path: process.env.PATH ?? '' })

const requestOf = (...lines: string[]) =>
  Buffer.concat([
    packet('command=object-info'),
    delimiterPacket,
    ...lines.map((line) => packet(line)),
    flushPacket,
  ])

test('the response is that of git, which gives it for missing objects and odd requests', async () => {
  await using project = await createProject()
  const directory = join(project.path, '.git')
  await project.commit('large.txt', 'x'.repeat(100_000))
  await project.git('tag', '-a', '-m', 'one', 'v1')
  const names = ['HEAD', 'HEAD^{tree}', 'HEAD:large.txt', 'v1']
  const ids = (await project.git('rev-parse', ...names)).split('\n')
  const [id = ''] = ids
  const oids = ids.map((each) => `oid ${each}`)
  await using objects = await openObjects(git, directory)
  const common = [packet('agent=git/2.56'), packet('object-format=sha1\n')]
  const inProcess = [
    requestOf('size', ...oids),
    requestOf('size\n', ...oids.map((oid) => `${oid}\n`), ...oids),
    requestOf(`oid ${id}`, 'size'),
    Buffer.concat([
      packet('command=object-info\n'),
      ...common,
      requestOf('size', ...oids).subarray(packet('command=object-info').length),
    ]),
  ]
  const byGit = [
    requestOf('size', ...oids, `oid ${'1'.repeat(id.length)}`),
    requestOf('size', `oid ${id.slice(1)}`),
    requestOf('size', `oid ${id} `),
    requestOf('size', `oid ${id.toUpperCase()}`),
    requestOf('size', 'oid HEAD'),
    requestOf('size', 'oid'),
    requestOf('size', 'type', ...oids),
    requestOf('size'),
    requestOf('size', ...Array<string>(5000).fill(`oid ${id}`)),
    Buffer.concat([packet('command=object-info'), flushPacket]),
    Buffer.concat([packet('command=object-info'), packet('server-option=x'), flushPacket]),
  ]
  for (const [requests, isInProcess] of [
    [inProcess, true],
    [byGit, false],
  ] as const) {
    for (const request of requests) {
      const text = request.toString('latin1', 0, 300)
      const expected = await git.run(gitCommands.fetch(directory), {
        protocol: 'version=2',
        input: request.toString(),
      })
      const response = await answerObjectInfo(objects, request)
      assert.equal(response?.toString(), isInProcess ? expected : undefined, text)
      assert.match(expected, /0000$/, text)
    }
  }
})
