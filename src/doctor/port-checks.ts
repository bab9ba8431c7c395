import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { connect, createServer } from 'node:net'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { codeOf } from '../base/error-code.ts'
import { within } from '../base/timeouts.ts'
import type { Check } from './check.ts'
import type { DoctorContext } from './context.ts'
import { type Finding, fault, messageOf, ok, SkipError } from './finding.ts'

const timeoutMs = 5000
const triesAtMost = 10
const pauseMs = 300
const identificationMaxLength = 255
const healthMaxLength = 1000

type Address = { host: string; port: number }

/** Whether HTTP answers when a server runs, and could be served when none does. */
export const httpPortCheck: Check = {
  id: 'http-port',
  title: 'the port of HTTP',
  async run(context) {
    const address = { host: context.setting('host'), port: context.setting('port') }
    return checkPort(context, address, { variable: 'SVC_PORT', ask: askHealth })
  },
}

/** The same for SSH. */
export const sshPortCheck: Check = {
  id: 'ssh-port',
  title: 'the port of SSH',
  async run(context) {
    const port = context.setting('sshPort')
    if (port === 'off') return [ok('SSH is off.')]
    const host = context.setting('sshHost')
    return checkPort(context, { host, port }, { variable: 'SVC_SSH_PORT', ask: askIdentification })
  },
}

type Via = {
  variable: string
  /** What a server of svc says there; rejects when it does not answer as one. */
  ask: (address: Address) => Promise<string>
}

async function checkPort(context: DoctorContext, address: Address, via: Via): Promise<Finding[]> {
  if (address.port === 0) {
    const note = context.isServed() ? '; the server that runs has told which' : ''
    return [ok(`Any free port of ${address.host}${note}.`)]
  }
  if (context.isServed()) return checkServed(context, address, via)
  const finding = await checkFree(address, via.variable)
  // What has the port may be a server that was started at this moment.
  return finding.level !== 'ok' && context.isServed()
    ? checkServed(context, address, via)
    : [finding]
}

async function checkServed(context: DoctorContext, address: Address, { variable, ask }: Via) {
  const where = toText(address)
  const attempt = () => within(timeoutMs, ask(reachable(address)))
  try {
    return [ok(`A server runs, and ${await patiently(attempt)} at ${where}.`)]
  } catch (error) {
    if (!context.isServed()) throw new SkipError('The server has stopped meanwhile.')
    return [
      fault(
        `A server runs on the data directory, but none of svc answers at ${where}: ${messageOf(error)}`,
        `If it is just starting or stopping, look again. Else set ${variable} and its host as the server has them, or start it anew.`,
      ),
    ]
  }
}

// A server has the data directory before it listens.
async function patiently<T>(attempt: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt()
    } catch (error) {
      if (tries >= triesAtMost || codeOf(error) !== 'ECONNREFUSED') throw error
      await sleep(pauseMs)
    }
  }
}

// Not with fetch, which refuses ports that a service may well have.
async function askHealth({ host, port }: Address): Promise<string> {
  const request = get({ host, port, path: '/health', agent: false, timeout: timeoutMs })
  request.on('timeout', () => request.destroy(new Error('no answer')))
  const [response]: IncomingMessage[] = await once(request, 'response')
  if (!response) throw new Error('no answer')
  const text = await start(response.setEncoding('utf8'), (body) => body.length > healthMaxLength)
  // A missing part of the service is a problem document, whose `code` names it.
  const [, status] = /(?:^\{"status"|"code"):"(\w{1,40})"/.exec(text) ?? []
  if (status === undefined) throw new Error(`HTTP ${response.statusCode}, and no word of health.`)
  return `its health is "${status}"`
}

async function askIdentification({ host, port }: Address): Promise<string> {
  const socket = connect({ host, port })
  try {
    const isWhole = (text: string) => text.includes('\n') || text.length > identificationMaxLength
    const text = await start(socket.setEncoding('latin1'), isWhole)
    const [line = ''] = text.split('\r\n')
    if (!line.startsWith('SSH-2.0-')) throw new Error('what answers there does not speak SSH.')
    return `SSH answers as ${line.slice(0, 40)}`
  } finally {
    socket.destroy()
  }
}

async function start(stream: Readable, isEnough: (text: string) => boolean): Promise<string> {
  let text = ''
  for await (const chunk of stream) {
    text += chunk
    if (isEnough(text)) break
  }
  return text
}

async function checkFree(address: Address, variable: string): Promise<Finding> {
  const where = toText(address)
  // Whoever comes by in this moment is sent away.
  const server = createServer((socket) => socket.destroy())
  try {
    server.listen(address)
    await once(server, 'listening')
    return ok(`No server runs, and ${where} is free.`)
  } catch (error) {
    return refusalOf(codeOf(error) ?? messageOf(error), where, address, variable)
  } finally {
    server.close()
  }
}

function refusalOf(code: string, where: string, { port }: Address, variable: string): Finding {
  if (code === 'EADDRINUSE') {
    const mend = `ss -ltnp 'sport = :${port}' shows it: stop it, or set ${variable} to another port.`
    return fault(`Another program has ${where}.`, mend)
  }
  if (code === 'EACCES') {
    const mend = `Set ${variable} to a port above 1023, or allow it: sysctl net.ipv4.ip_unprivileged_port_start=${port}`
    return fault(`This user may not listen at ${where}.`, mend)
  }
  const mend = `Set ${variable.replace('PORT', 'HOST')} to an address of this machine: ip address lists them.`
  return fault(`Nobody can listen at ${where} (${code}).`, mend)
}

function reachable({ host, port }: Address): Address {
  return { host: host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host, port }
}

function toText({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
