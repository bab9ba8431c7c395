import { StringDecoder } from 'node:string_decoder'
import { toSafeJson } from '#base/safe-text.ts'
import { path } from '../http-client.ts'
import type { Work } from '../operation.ts'
import { placeOf } from './option-values.ts'

/** `svc browse file`: a pipe gets the bytes as they are; a terminal, text that does not control it. */
export async function runPrintFile({
  client,
  input,
  terminal,
  columns,
  json,
}: Work): Promise<void> {
  const request = {
    method: 'GET',
    path: path`/repos/${input.argument('repository')}/file`,
    query: placeOf(input),
  }
  if (json) {
    terminal.out(toSafeJson(await client.json(request)))
    return
  }
  const body = await client.stream(request, 'text/plain', 'application/octet-stream')
  const decoder = new StringDecoder('utf8')
  for await (const bytes of body) {
    if (columns === undefined) await terminal.write(bytes)
    else terminal.out(decoder.write(bytes))
  }
}
