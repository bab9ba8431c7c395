import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { connect, createServer } from 'node:net'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { codeOf } from '#base/error-code.ts'
import { within } from '#base/timeouts.ts'
import type { Check } from '../check.ts'
import type { DoctorContext } from '../context.ts'
import { type Finding, type Findings, fault, messageOf, ok, SkipError } from '../finding.ts'

const timeoutMs = 5000
const maxAttempts = 10
const pauseMs = 300
const maxIdentificationLength = 255
const maxHealthLength = 1000

type Address = { host: string; port: number }

/** Checks that a running server responds to HTTP, or that the port is free. */
export const httpPortCheck: Check = {
  id: 'http-port',
  title: 'the HTTP port',
  async run(context) {
    const address = { host: context.setting('host'), port: context.setting('port') }
    return checkPort(context, address, { variable: 'SVC_PORT', probe: probeHealth })
  },
}

/** Checks that a running server responds to SSH, or that the port is free. */
export const sshPortCheck: Check = {
  id: 'ssh-port',
  title: 'the SSH port',
  async run(context) {
    const port = context.setting('sshPort')
    if (port === 'off') return ok('SSH is off.')
    const host = context.setting('sshHost')
    return checkPort(
      context,
      { host, port },
      { variable: 'SVC_SSH_PORT', probe: probeIdentification },
    )
  },
}

type Via = {
  variable: string
  /** Describes the response of an svc server; rejects without a response. */
  probe: (address: Address) => Promise<string>
}

async function checkPort(context: DoctorContext, address: Address, via: Via): Promise<Findings> {
  if (address.port === 0) {
    const note = context.isServed() ? '; the running server has logged which' : ''
    return ok(`Any free port of ${address.host}${note}.`)
  }
  if (context.isServed()) return checkServed(context, address, via)
  const finding = await checkFree(address, via.variable)
  // A server that was just started may have the port.
  return finding.level !== 'ok' && context.isServed()
    ? checkServed(context, address, via)
    : [finding]
}

async function checkServed(context: DoctorContext, address: Address, { variable, probe }: Via) {
  const where = toText(address)
  const attempt = () => within(timeoutMs, probe(reachable(address)))
  try {
    return ok(`A server runs, and ${await retryWhileRefused(attempt)} at ${where}.`)
  } catch (error) {
    if (!context.isServed()) throw new SkipError('The server has just stopped.')
    return fault(
      `A server runs on the data directory, but svc does not respond at ${where}: ${messageOf(error)}`,
      `If it is just starting or stopping, check again. Otherwise set ${variable} and its host as for the server, or restart the server.`,
    )
  }
}

// A server locks the data directory before it listens.
async function retryWhileRefused<T>(attempt: () => Promise<T>): Promise<T> {
  for (let attempts = 1; ; attempts++) {
    try {
      return await attempt()
    } catch (error) {
      if (attempts >= maxAttempts || codeOf(error) !== 'ECONNREFUSED') throw error
      await sleep(pauseMs)
    }
  }
}

// fetch is not used because it blocks some ports.
async function probeHealth({ host, port }: Address): Promise<string> {
  const request = get({ host, port, path: '/health', agent: false, timeout: timeoutMs })
  request.on('timeout', () => request.destroy(new Error('no answer')))
  const [response]: IncomingMessage[] = await once(request, 'response')
  if (!response) throw new Error('no answer')
  const text = await start(response.setEncoding('utf8'), (body) => body.length > maxHealthLength)
  // A missing part of the service is a problem document, whose `code` names it.
  const [, status] = /(?:^\{"status"|"code"):"(\w{1,40})"/.exec(text) ?? []
  if (status === undefined) throw new Error(`HTTP ${response.statusCode} without a health status.`)
  return `its health is "${status}"`
}

async function probeIdentification({ host, port }: Address): Promise<string> {
  const socket = connect({ host, port })
  try {
    const isComplete = (text: string) =>
      text.includes('\n') || text.length > maxIdentificationLength
    const text = await start(socket.setEncoding('latin1'), isComplete)
    const [line = ''] = text.split('\r\n')
    if (!line.startsWith('SSH-2.0-')) throw new Error('the server there does not speak SSH.')
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
  const server = createServer((socket) => socket.destroy())
  try {
    server.listen(address)
    await once(server, 'listening')
    return ok(`No server runs, and ${where} is free.`)
  } catch (error) {
    return toFault(codeOf(error) ?? messageOf(error), where, address, variable)
  } finally {
    server.close()
  }
}

function toFault(code: string, where: string, { port }: Address, variable: string): Finding {
  if (code === 'EADDRINUSE') {
    const fix = `ss -ltnp 'sport = :${port}' shows it: stop it, or set ${variable} to another port.`
    return fault(`Another program uses ${where}.`, fix)
  }
  if (code === 'EACCES') {
    const fix = `Set ${variable} to a port above 1023, or allow it: sysctl net.ipv4.ip_unprivileged_port_start=${port}`
    return fault(`This user may not listen at ${where}.`, fix)
  }
  const fix = `Set ${variable.replace('PORT', 'HOST')} to an address of this machine: ip address lists them.`
  return fault(`Listening at ${where} fails (${code}).`, fix)
}

function reachable({ host, port }: Address): Address {
  return { host: host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host, port }
}

function toText({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
