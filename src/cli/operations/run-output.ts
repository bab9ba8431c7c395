import { StringDecoder } from 'node:string_decoder'
import { printable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { followEvents } from '../servers/event-stream-client.ts'
import { at, textAt } from '../terminal/display.ts'
import type { ServerWork, Work } from './operation.ts'

/** `svc runs watch`: the exit code is that of the run. */
export async function runWatch(work: ServerWork): Promise<number> {
  const { client, terminal, json } = work
  const request = work.request({ follow: true })
  const known = await client.json(work.request({}, 'getRun'))
  if (textAt(known, 'status') === 'queued')
    terminal.progress(
      `Waiting for the run to ${at(known, 'needsApproval') === true ? 'be approved' : 'start'}`,
    )
  // An event without data only has the position.
  for await (const { name, data, id } of followEvents(client, request, isEnd)) {
    terminal.progress('')
    if (name === 'end') break
    if (data !== '' || id === '') print(work, `${data}\n`)
  }
  terminal.progress('')
  const ended = await client.json(work.request({}, 'getRun'))
  const conclusion = textAt(ended, 'conclusion') || textAt(ended, 'status')
  if (json) terminal.out(toSafeJson({ id: textAt(ended, 'id'), conclusion }, 0))
  else print({ ...work, columns: 0 }, `Run ${textAt(ended, 'number')}: ${conclusion}\n`)
  return conclusion === 'success' ? 0 : 1
}

/** `svc runs logs` */
export async function runLogs(work: ServerWork): Promise<void> {
  const body = await work.client.stream(work.request(), 'text/plain')
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
function print({ terminal, columns, json }: ServerWork, text: string): void {
  if (json) terminal.err(text)
  else terminal.out(columns === undefined ? Buffer.from(text) : text)
}

/** `svc runs validate`: the exit code is 1 if a file has a fault. */
export async function runValidate({ client, request, json, terminal }: Work): Promise<number> {
  const body = await client.json(request())
  const isValid = at(body, 'valid') === true
  const lines = [
    ...linesOf(at(body, 'faults'), ({ message, instead }) => `${message} ${instead}`),
    ...linesOf(at(body, 'notes'), ({ message }) => `note: ${message}`),
    ...(isValid ? ['The workflow files are valid.\n'] : []),
  ]
  terminal.out(json ? toSafeJson(body) : lines.join(''))
  return isValid ? 0 : 1
}

type Finding = { message: string; instead: string }

function linesOf(found: unknown, format: (finding: Finding) => string): string[] {
  return (Array.isArray(found) ? found : []).map((one) => {
    const position = ['file', 'line', 'column'].map((name) => textAt(one, name)).join(':')
    const text = format({ message: textAt(one, 'message'), instead: textAt(one, 'instead') })
    return `${printable(`${position}: ${text}`)}\n`
  })
}
