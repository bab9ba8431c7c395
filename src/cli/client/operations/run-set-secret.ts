import { at } from '../display.ts'
import { path } from '../http-client.ts'
import type { Work } from '../operation.ts'
import { showResult } from '../show-result.ts'

/** `svc secrets set` */
export async function runSetSecret(work: Work): Promise<void> {
  const { readValue } = await import('../../commands/read-value.ts')
  const { client, input, terminal } = work
  const name = input.argument('name')
  const value = await readValue(name, terminal)
  const body = await client.json({
    method: 'PUT',
    path: path`/repos/${input.argument('repository')}/secrets/${name}`,
    body: { value: value.reveal() },
  })
  showResult(work, body, String(at(body, 'message') ?? `Saved ${name}.`))
}
