import { StringDecoder } from 'node:string_decoder'
import { toSafeJson } from '#base/safe-text.ts'
import { textAt } from '../display.ts'
import { followEvents } from '../event-stream-client.ts'
import { path } from '../http-client.ts'
import type { Work } from '../operation.ts'
import { wholeOf } from './option-values.ts'

/** `svc runs watch`: the exit code is that of the run. */
export async function runWatch(work: Work): Promise<number> {
  const { client, input, terminal, json } = work
  const run = path`/repos/${input.argument('repository')}/workflows/${input.argument('run')}`
  const request = { method: 'GET', path: `${run}/logs`, query: { follow: true } }
  const known = await client.json({ method: 'GET', path: run })
  if (textAt(known, 'status') === 'queued') terminal.progress('Waiting for the run to start')
  // An event without data only has the position.
  for await (const { name, data, id } of followEvents(client, request, isEnd)) {
    terminal.progress('')
    if (name === 'end') break
    if (data !== '' || id === '') print(work, `${data}\n`)
  }
  terminal.progress('')
  const ended = await client.json({ method: 'GET', path: run })
  const conclusion = textAt(ended, 'conclusion') || textAt(ended, 'status')
  if (json) terminal.out(toSafeJson({ id: textAt(ended, 'id'), conclusion }, 0))
  else print({ ...work, columns: 0 }, `Run ${textAt(ended, 'number')}: ${conclusion}\n`)
  return conclusion === 'success' ? 0 : 1
}

/** `svc runs logs` */
export async function runLogs(work: Work): Promise<void> {
  const { client, input } = work
  const request = {
    method: 'GET',
    path: path`/repos/${input.argument('repository')}/workflows/${input.argument('run')}/logs`,
    query: {
      attempt: wholeOf(input.option('attempt'), '--attempt'),
      step: wholeOf(input.option('step'), '--step'),
    },
  }
  const body = await client.stream(request, 'text/plain')
  const decoder = new StringDecoder('utf8')
  // Whole lines, so that no control sequence is cut in two.
  let rest = ''
  for await (const bytes of body) {
    const text = rest + decoder.write(bytes)
    const end = text.lastIndexOf('\n') + 1
    print(work, text.slice(0, end))
    rest = text.slice(end)
  }
  print(work, rest + decoder.end())
}

const isEnd = ({ name }: { name: string }) => name === 'end'

// A pipe gets the log as it is; with --json, standard output is for JSON only.
function print({ terminal, columns, json }: Work, text: string): void {
  if (json) terminal.err(text)
  else terminal.out(columns === undefined ? Buffer.from(text) : text)
}
