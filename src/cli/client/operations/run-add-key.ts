import { textAt } from '../display.ts'
import type { Work } from '../operation.ts'
import { showResult } from '../show-result.ts'
import { daysOf } from './option-values.ts'

/** `svc keys add` and `svc keys-add` */
export async function runAddKey(work: Work): Promise<void> {
  const { readKey } = await import('../../commands/read-key.ts')
  const { client, input, terminal } = work
  const publicKey = (await readKey(input.argument('key') || undefined, terminal)).trim()
  const body = await client.json({
    method: 'POST',
    path: '/keys',
    body: {
      publicKey,
      name: input.option('name') ?? commentOf(publicKey),
      username: input.option('username'),
      permissions: input.list('permission'),
      expiresInDays: daysOf(input.option('expiresInDays')),
    },
  })
  const [fingerprint, username] = [textAt(body, 'fingerprint'), textAt(body, 'username')]
  showResult(work, body, `Added ${fingerprint} for ${username}, id ${textAt(body, 'id')}.`)
}

/** The comment of a key, as far as it can be a name. */
function commentOf(publicKey: string): string {
  const [, comment = ''] = /^\S+\s+\S+\s+([^\r\n]+)/.exec(publicKey) ?? []
  return comment.trim().slice(0, 100) || 'command line'
}
