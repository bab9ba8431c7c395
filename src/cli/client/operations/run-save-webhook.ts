import { UsageError } from '../../commands/usage-error.ts'
import { textAt } from '../display.ts'
import { path } from '../http-client.ts'
import type { CommandInput, Work } from '../operation.ts'
import { showResult } from '../show-result.ts'
import { wholeOf } from './option-values.ts'

/** `svc webhooks create` and `svc webhooks edit` */
export async function runSaveWebhook(work: Work): Promise<void> {
  const { client, input, terminal } = work
  const id = input.argument('webhook')
  const isNew = id === ''
  const secret = await readSecret(input, terminal)
  const repository = input.argument('repository')
  const given = { events: input.list('event'), secret }
  const body = isNew
    ? await client.json({
        method: 'POST',
        path: path`/repos/${repository}/webhooks`,
        body: { ...given, events: given.events ?? ['push'], url: input.argument('url') },
      })
    : await client.json({
        method: 'PATCH',
        path: path`/repos/${repository}/webhooks/${id}`,
        body: {
          ...given,
          url: input.option('url'),
          enabled: toEnabled(input),
          keepPreviousSecretSeconds: wholeOf(
            input.option('keepPreviousSecret'),
            '--keep-previous-secret',
          ),
        },
      })
  showResult(work, body, `${isNew ? 'Created' : 'Changed'} the webhook ${textAt(body, 'id')}.`)
}

async function readSecret(
  { flag }: CommandInput,
  terminal: Work['terminal'],
): Promise<string | null | undefined> {
  if (flag('withSecret') && flag('withoutSecret')) {
    throw new UsageError('--with-secret and --without-secret exclude each other.')
  }
  if (flag('withoutSecret')) return null
  if (!flag('withSecret')) return undefined
  const { readValue } = await import('../../commands/read-value.ts')
  return (await readValue('the secret', terminal)).reveal()
}

function toEnabled({ flag }: CommandInput): boolean | undefined {
  if (flag('enable') && flag('disable')) {
    throw new UsageError('--enable and --disable exclude each other.')
  }
  if (flag('enable')) return true
  return flag('disable') ? false : undefined
}
