import type { AccessWatch } from '#access/access-watch.ts'
import { requirePermission } from '#access/may.ts'
import { listAll } from '#base/list-all.ts'
import { Problem } from '#base/problem.ts'
import type { GitEngine } from '../git-engine.ts'
import { lfsOperations } from '../lfs/lfs-operations.ts'
import { needOf } from '../requests/find-repository.ts'
import type { GitRequest, RequestOutcome } from '../requests/git-request.ts'
import type { SshRpcServer } from './rpc-server.ts'
import type { Call, SshCommand } from './ssh-command.ts'
import {
  toCatalogue,
  toDetails,
  toHelp,
  toIdentity,
  toRepositoryList,
  toSelf,
} from './ssh-output.ts'

type Dependencies = {
  engine: GitEngine
  backend: Pick<SshRpcServer, 'open' | 'list' | 'describe' | 'createLoginLink' | 'createLfsToken'>
  accessWatch: AccessWatch
}

/**
 * The command by which git-lfs logs in: https://github.com/git-lfs/git-lfs/blob/main/docs/api/server-discovery.md, "SSH".
 * Its other command, `git-lfs-transfer`, is unknown, so that it goes on to this one.
 */
export const lfsCommand = 'git-lfs-authenticate'

/** The commands that can be run over SSH, by name. */
export function createSshCommands({ engine, backend, accessWatch }: Dependencies) {
  const commands: Record<string, SshCommand> = {
    repos: {
      kind: 'print',
      usage: '',
      summary: 'list the repositories that you can see',
      async run({ caller: { principal } }) {
        requirePermission(principal, 'repo:read')
        const all = await listAll('', (page) => backend.list(principal, page))
        return { text: toRepositoryList(all), json: all }
      },
    },
    info: {
      kind: 'print',
      usage: '<name>',
      summary: 'show the details of a repository',
      async run({ caller: { principal }, repositoryName }) {
        const repository = await backend.open(principal, repositoryName, 'repo:read', 'member')
        const described = await backend.describe(repository)
        return { text: toDetails(described), json: described }
      },
    },
    whoami: {
      kind: 'print',
      usage: '',
      summary: 'show your username and what your key may do',
      async run({ caller }) {
        const { principal } = caller
        const isLimited = principal.repositories !== undefined
        const visible = isLimited
          ? await listAll('', (page) => backend.list(principal, page))
          : undefined
        const names = visible?.map(({ name }) => name)
        return { text: toSelf(caller, names), json: toIdentity(caller, names) }
      },
    },
    login: {
      kind: 'print',
      usage: '',
      summary: 'print an address that logs a browser in once, within a minute',
      async run({ caller: { principal, key } }) {
        if (!key) throw new Problem('permission_missing', 'A login to the web pages needs a key.')
        const link = await backend.createLoginLink(principal)
        return { text: `${link.url}\n`, json: link }
      },
    },
    help: {
      kind: 'print',
      usage: '',
      summary: 'list these commands',
      async run() {
        return { text: toHelp(commands), json: toCatalogue(commands) }
      },
    },
    'git-upload-pack': {
      kind: 'git',
      usage: '<name>',
      summary: 'run by git clone, git fetch and git ls-remote',
      async run(call) {
        return whileAllowed(call, 'repo:read', async (request) => {
          if (call.protocol !== 'version=2') return engine.fetchSession(request, call.input)
          await engine.advertise('git-upload-pack', request)
          return engine.fetchEach(request, call.input)
        })
      },
    },
    'git-receive-pack': {
      kind: 'git',
      usage: '<name>',
      summary: 'run by git push',
      async run(call) {
        return whileAllowed(call, 'repo:write', async (request) => {
          await engine.advertise('git-receive-pack', request)
          return engine.push(request, call.input, true)
        })
      },
    },
    [lfsCommand]: {
      kind: 'print',
      usage: '<name> <operation>',
      summary: 'run by git-lfs, which then transfers over HTTP',
      async run({ caller: { principal }, repositoryName, operation: sent }) {
        const operation = lfsOperations.find((known) => known === sent)
        if (!operation) {
          const detail = 'The operation of Git LFS is `download` or `upload`.'
          throw new Problem('lfs_request_invalid', detail)
        }
        const access = await backend.createLfsToken(principal, repositoryName, operation)
        return { text: `${JSON.stringify(access)}\n`, json: access }
      },
    },
    'git-upload-archive': {
      kind: 'git',
      usage: '<name>',
      summary: 'run by git archive --remote',
      async run(call) {
        return whileAllowed(call, 'repo:read', (request) => engine.archive(request, call.input))
      },
    },
  }

  /**
   * Serves a command of Git, and ends it when the caller loses access. A push is not ended once its pack has arrived: its
   * authorization checks access again.
   */
  async function whileAllowed(
    call: Call,
    permission: 'repo:read' | 'repo:write',
    serve: (request: GitRequest) => Promise<RequestOutcome>,
  ): Promise<RequestOutcome> {
    const need = needOf(permission)
    const request = await open(call, permission, need)
    const { principal, repository } = request
    const lost = new AbortController()
    const handle = accessWatch.add({
      access: [{ principal, permission, repository: { id: repository.id, need } }],
      end: (problem) => lost.abort(problem),
    })
    try {
      const signal = AbortSignal.any([call.signal, lost.signal])
      const onReceived = () => void accessWatch.remove(handle)
      const outcome = await serve({ ...request, signal, onReceived })
      if (outcome !== 0) lost.signal.throwIfAborted()
      return outcome
    } catch (error) {
      throw lost.signal.aborted ? lost.signal.reason : error
    } finally {
      accessWatch.remove(handle)
    }
  }

  async function open(
    call: Call,
    permission: 'repo:read' | 'repo:write',
    need: ReturnType<typeof needOf>,
  ): Promise<GitRequest> {
    const { principal } = call.caller
    const repository = await backend.open(principal, call.repositoryName, permission, need)
    return { ...call, principal, repository, sendsAllFirst: false }
  }

  return commands
}
