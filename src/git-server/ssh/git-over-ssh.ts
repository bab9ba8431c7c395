import { createAccessWatch } from '#access/access-watch.ts'
import { repositoryNameIn } from '#access/names.ts'
import { anonymousFrom } from '#access/principal.ts'
import { systemClock } from '#base/clock.ts'
import { createRateLimiter } from '#base/concurrency/rate-limiter.ts'
import { createTaskGroup } from '#base/concurrency/task-group.ts'
import { printable } from '#base/format.ts'
import type { Log } from '#base/log.ts'
import { Problem, toProblem } from '#base/problem.ts'
import { redactTokens } from '#base/redact-tokens.ts'
import { trimEndOf } from '#base/trim-end.ts'
import type { PlainSettings } from '#config/settings.ts'
import { toUnavailable } from '#http/serve/request-log.ts'
import type { SshSession } from '#ssh/connection.ts'
import type { AuthRequest, AuthResult } from '#ssh/userauth.ts'
import type { GitEngine } from '../git-engine.ts'
import { type GitResponse, protocolIn } from '../requests/git-request.ts'
import type { SshRpcServer } from './rpc-server.ts'
import type { SshCaller } from './ssh-command.ts'
import { toWords } from './ssh-command.ts'
import { createSshCommands, lfsCommand } from './ssh-commands.ts'
import { toGreeting, toHelp } from './ssh-output.ts'
import { sshUser } from './ssh-process.ts'

const anonymousUser = 'anonymous'

/** The identity of a connection. Its permissions are read again for each command. */
type Identity = { keyId: string; username: string } | { anonymousFrom: string }

type Dependencies = {
  engine: GitEngine
  backend: Pick<
    SshRpcServer,
    | 'identify'
    | 'principalOf'
    | 'hasPublic'
    | 'open'
    | 'list'
    | 'describe'
    | 'createLoginLink'
    | 'createLfsToken'
    | 'recheckAccess'
    | 'requireParts'
  >
  settings: PlainSettings
  log: Log
}

/** A server of Git over SSH, for createSshServer. */
export type GitOverSsh = {
  /** The name under which an identity's connections are limited. */
  nameOf: (identity: Identity) => string
  authenticate: (request: AuthRequest, address: string) => Promise<AuthResult<Identity>>
  /** Runs the command of a session and returns its exit code. */
  serve: (session: SshSession<Identity>) => Promise<number>
  /** Waits until all commands have ended. */
  drain: () => Promise<void>
}

// The conventions of shells and of git.
const exitCodes = { failure: 1, usage: 2, unknown: 127, git: 128 } as const

// Git's own words, by which client libraries such as go-git know an absent repository. They read the first line alone.
const notRepository = 'This does not appear to be a git repository'

/** Serves Git and a few informational commands over SSH: https://git-scm.com/docs/pack-protocol, "SSH Transport". */
export function createGitOverSsh({ engine, backend, settings, log }: Dependencies): GitOverSsh {
  const accessWatch = createAccessWatch({ recheck: backend.recheckAccess })
  const commands = createSshCommands({ engine, backend, accessWatch })
  const requests = createRateLimiter({
    perSecond: settings.requestsPerSecond,
    burst: settings.requestBurst,
    clock: systemClock,
  })
  // A push stays here until its events are published, which may be after its response.
  const running = createTaskGroup()

  async function authenticate(
    { username, key: blob }: AuthRequest,
    address: string,
  ): Promise<AuthResult<Identity>> {
    if (username === anonymousUser && (settings.sshAnonymousRead || (await backend.hasPublic())))
      return { identity: { anonymousFrom: address } }
    if (username !== sshUser) {
      const notice = `The SSH user of this service is ${sshUser}: ssh://${sshUser}@…`
      return { identity: undefined, notice }
    }
    const key = blob && (await backend.identify(blob))
    return { identity: key && { keyId: key.id, username: key.username } }
  }

  async function callerOf({ identity, address }: SshSession<Identity>): Promise<SshCaller> {
    if ('anonymousFrom' in identity) {
      const principal = anonymousFrom(identity.anonymousFrom, settings.sshAnonymousRead)
      return { principal, key: undefined }
    }
    const caller = await backend.principalOf(identity.keyId)
    if (!caller) {
      const detail = 'Your SSH key was removed or has expired, or its user is disabled.'
      throw new Problem('ssh_key_not_found', detail)
    }
    const origin = { via: 'ssh' as const, address }
    return { ...caller, principal: { ...caller.principal, origin } }
  }

  async function serve(session: SshSession<Identity>): Promise<number> {
    const startedAt = performance.now()
    const exitCode = await run(session).catch((error) => explain(session, error))
    log.info(
      {
        ...session.identity,
        address: session.address,
        // Redacted before it is shortened, so that no part of a token is logged.
        command: session.command && redactTokens(session.command).slice(0, 200),
        exitCode,
        ms: Math.round(performance.now() - startedAt),
      },
      'ssh command',
    )
    return exitCode
  }

  async function run(session: SshSession<Identity>): Promise<number> {
    const { identity, command: line, output, signal, input, isAlive } = session
    const parsed = line === undefined ? undefined : parse(line)
    if (parsed?.command.kind !== 'git') limit(identity)
    const caller = await callerOf(session)
    if (!parsed) {
      output.write(toLines(session, toGreeting(caller, toHelp(commands))))
      return 0
    }
    const { command, repositoryName, operation, isJson } = parsed
    const completed = Promise.withResolvers<number>()
    const call = {
      caller,
      repositoryName,
      operation,
      protocol: protocolIn(session.gitProtocol),
      response: toGitResponse(session, () => completed.resolve(0)),
      input: input.read(signal),
      isReceiving: input.isWaiting,
      isAlive,
      signal,
    }
    if (command.kind === 'print') {
      const { text, json } = await command.run(call)
      output.write(toLines(session, isJson ? `${JSON.stringify(json)}\n` : text))
      return 0
    }
    const ended = command
      .run(call)
      .then((outcome) => (typeof outcome === 'number' ? outcome : exitCodes.git))
    return Promise.race([completed.promise, running.add(ended)])
  }

  // Git's own commands are limited by the Git limiters, as over HTTP.
  function limit(identity: Identity): void {
    const retryAfterSeconds = requests.acquire(nameOf(identity))
    if (retryAfterSeconds === 0) return
    throw new Problem(
      'too_many_requests',
      `A user may run ${settings.requestsPerSecond} commands per second.`,
      { retryAfterSeconds },
    )
  }

  function parse(line: string) {
    if (Buffer.byteLength(line) > settings.sshCommandMaxBytes) {
      throw new CommandError(
        exitCodes.usage,
        `A command must not be longer than ${settings.sshCommandMaxBytes} bytes.`,
      )
    }
    const words = toWords(line)
    if (!words)
      throw new CommandError(exitCodes.usage, 'The command has a quote that is not closed.')
    // Some clients are configured to run `git upload-pack`.
    if (words[0] === 'git' && words[1]) words.splice(0, 2, `git-${words[1]}`)
    const [name = '', ...args] = words
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined
    if (!command) {
      throw new CommandError(
        exitCodes.unknown,
        `Unknown command "${name}"; run help for a list of commands.`,
      )
    }
    const isJson = command.kind === 'print' && args.includes('--json')
    const others = isJson ? args.filter((arg) => arg !== '--json') : args
    // Old versions of git-lfs send the id of an object after the operation.
    if (name === lfsCommand) others.length = Math.min(others.length, 2)
    if (others.length !== (command.usage === '' ? 0 : command.usage.split(' ').length)) {
      const usage = [name, command.usage, command.kind === 'print' && '[--json]']
      throw new CommandError(exitCodes.usage, `Usage: ${usage.filter(Boolean).join(' ')}`)
    }
    const repositoryName = toRepositoryName(others[0] ?? '')
    if (command.kind === 'git' || name === lfsCommand) refuseMisplaced(repositoryName)
    return { command, isJson, repositoryName, operation: others[1] ?? '' }
  }

  async function explain(session: SshSession<Identity>, error: unknown): Promise<number> {
    const { signal, errors, command = '' } = session
    if (signal.aborted) return exitCodes.git
    const isGit = /^git\b/.test(command)
    if (error instanceof CommandError) {
      errors.write(toLines(session, toErrorLine(error.message)))
      return error.exitCode
    }
    const problem = toProblem(error)
    if (problem.cause !== undefined) log.error({ err: problem.cause }, 'ssh command failed')
    const { code, message } = await toUnavailable(problem, backend.requireParts)
    const advice = isGit && code === 'repository_not_found' ? toErrorLine(notRepository) : ''
    errors.write(toLines(session, advice + toErrorLine(message)))
    return isGit ? exitCodes.git : exitCodes.failure
  }

  return {
    nameOf,
    authenticate,
    serve,

    drain: running.settled,
  }
}

function nameOf(identity: Identity): string {
  return 'username' in identity
    ? identity.username
    : anonymousFrom(identity.anonymousFrom, false).id
}

/** A command line that is not valid. */
class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exitCode: number

  constructor(exitCode: number, message: string) {
    super(message)
    this.exitCode = exitCode
  }
}

function toErrorLine(text: string): string {
  return `svc: ${printable(text)}\n`
}

// A terminal in raw mode needs a carriage return.
function toLines({ hasTerminal }: SshSession<Identity>, text: string): string {
  return hasTerminal ? text.replaceAll('\n', '\r\n') : text
}

// The path is `/name.git` in URLs and `name.git` in scp-like addresses.
function toRepositoryName(path: string): string {
  return trimEndOf(path.replace(/^\//, ''), '/').replace(/\.git$/, '')
}

/** Throws for a path with more than a name, as over HTTP and on other hosts, and says the right path. */
function refuseMisplaced(path: string): void {
  const name = repositoryNameIn(path)
  if (name === undefined || name === path) return
  const detail = `Git over SSH finds repositories of this server at /NAME.git or /NAMESPACE/NAME.git: the path of this one is /${name}.git.`
  throw new Problem('repository_not_found', detail)
}

function toGitResponse(
  { output, sentBytes }: SshSession<Identity>,
  onComplete: () => void,
): GitResponse {
  let hasBegun = false
  return {
    output,
    begin() {
      hasBegun = true
    },
    respondWithBytes(bytes) {
      hasBegun = true
      output.write(bytes)
    },
    hasBegun: () => hasBegun,
    sentBytes,
    onComplete,
  }
}
