import { printable } from '../../base/format.ts'
import { at, textAt, toSafeJson } from '../display.ts'
import { path } from '../http-client.ts'
import type { Work } from '../operation.ts'

/** `svc runs validate`: the exit code is 1 if a file has a fault. */
export async function runValidate({ client, input, json, terminal }: Work): Promise<number> {
  const body = await client.json({
    method: 'POST',
    path: path`/repos/${input.argument('repository')}/workflows/validate`,
    body: { branch: input.option('branch'), files: input.list('file') },
  })
  const faults = at(body, 'faults')
  const lines = (Array.isArray(faults) ? faults : []).map((fault) => {
    const position = ['file', 'line', 'column'].map((name) => textAt(fault, name)).join(':')
    return `${printable(`${position}: ${textAt(fault, 'message')} ${textAt(fault, 'instead')}`)}\n`
  })
  if (json) terminal.out(toSafeJson(body))
  else terminal.out(lines.length === 0 ? 'The workflow files are valid.\n' : lines.join(''))
  return at(body, 'valid') === true ? 0 : 1
}
