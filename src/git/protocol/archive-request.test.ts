import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readArchiveRequest } from './archive-request.ts'
import { flushPacket, packet } from './pkt-line.ts'
import { bodyOf } from './request-body.ts'

const delimiter = Buffer.from('0001')

function read(words: string[], end = flushPacket): Promise<Buffer> {
  const packets = words.map((word) => packet(`argument ${word}\n`))
  return readArchiveRequest(bodyOf(Buffer.concat([...packets, end])), 100_000)
}

test('an archive request with allowed options is accepted unchanged', async () => {
  for (const words of [
    ['main'],
    ['--format=tar.gz', '-9', '--prefix=site-1.0/', 'main', 'src', ':(glob)**/*.ts'],
    ['--format', 'zip', '--prefix', '../odd/', '--mtime=2026-01-01', '-0', '-v', 'main'],
    ['--prefix', '--output=/tmp/out', 'main'],
    ['-l'],
    ['--list'],
    ['main:src', '--verbose', '--', '-file', '--add-file=x'],
    ['--end-of-options', 'main', '--add-file=x'],
    ['main', 'dots..in/na..me', ':(attr:a\\)b)src'],
  ]) {
    assert.equal(
      (await read(words)).toString(),
      `${words.map((word) => packet(`argument ${word}\n`)).join('')}0000`,
    )
  }
})

test('every other option is rejected by name, in any position', async () => {
  for (const option of [
    '--add-file=/etc/passwd',
    '--add-fil=/etc/passwd',
    '--add-virtual-file=name:content',
    '--add-virtual-file',
    '--output=out',
    '-oout',
    '-o',
    '--exec=program',
    '--remote=elsewhere',
    '--worktree-attributes',
    '--no-worktree-attributes',
    '--form=zip',
    '--no-list',
    '--prefixed=a',
    '-9v',
    '-10',
    '-h',
    '--git-completion-helper',
    '-',
    '--formatx',
    '---',
  ]) {
    for (const words of [
      [option, 'main'],
      ['main', option],
      ['--format', 'tar', option, 'main'],
    ]) {
      const refused = {
        code: 'malformed_git_request',
        message: /^git archive does not support the opt/,
      }
      await assert.rejects(read(words), refused, words.join(' '))
      await assert.rejects(read(words), (error: Error) => error.message.includes(`"${option}"`))
    }
  }
})

test('a path outside the repository is rejected, and so is pathspec magic', async () => {
  for (const path of ['..', '/etc', 'a/../..', ':(top)/etc', ':!:..', ':(attr:a\\))/etc', ':/..']) {
    await assert.rejects(read(['main', path]), /is outside of the repository/, path)
    await assert.rejects(read(['main', '--', path]), /is outside of the repository/, path)
  }
  for (const words of [
    ['main', '..\0x'],
    ['-9\0', 'main'],
  ]) {
    await assert.rejects(read(words), /does not follow the Git protocol/)
  }
  await assert.rejects(
    read(['main'], Buffer.concat([delimiter, packet('argument --add-file=x'), flushPacket])),
    /does not follow the Git protocol/,
  )
})
