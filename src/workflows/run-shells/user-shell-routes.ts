import { Type } from 'typebox'
import { requirePermission } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { Offset, Piece, ShellEndBody } from '#actions/runner-api/shell-api.ts'
import { closed, textForm } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { type FindRequest, nothing, route } from '#http/route.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import type { RunOfShells, UserShells } from './user-shells.ts'

/** Finds a run by its id or its number. Throws `run_not_found`. */
export type FindRun = (repository: Repository, idOrNumber: string) => Promise<RunOfShells>

type Dependencies = {
  repositories: Pick<Repositories, 'open'>
  findRun: FindRun
  shells: UserShells
}

/** The permission that the routes name, and the other one that a shell takes. */
export const shellPermission = 'secrets:write'

/**
 * Requires what a shell takes beyond its route's permission. A shell shows the values of secrets, which nothing else
 * does, and runs commands as a workflow does. So it is for the owner and the role `admin` alone.
 */
export function requireShellPermissions(principal: Principal): void {
  requirePermission(principal, 'workflow:trigger')
}

const maxWaitSeconds = 10
const problems = [
  'repository_not_found',
  'repository_importing',
  'owner_required',
  'token_limited',
] as const
const shellProblems = [...problems, 'run_not_found', 'shell_not_found'] as const

/** The routes with which users open and use shells. */
export function userShellRoutes({ repositories, findRun, shells }: Dependencies) {
  const find = ({ principal, permission, params }: FindRequest<{ name: string }>) => {
    requireShellPermissions(principal)
    return repositories.open(principal, params.name, permission, 'owner')
  }
  const shellOf = async (
    principal: Principal,
    repository: Repository,
    { id, shell }: { id: string; shell: string },
  ) => ({
    principal,
    repository,
    runId: (await findRun(repository, id)).id,
    id: shell,
  })
  const deadlineOf = (seconds: number) => performance.now() + seconds * 1000

  return [
    route('POST', '/repos/:name/workflows/:id/shells', {
      operationId: 'openShell',
      tag: 'workflow runs',
      summary: 'Open a shell in the workspace of a failed job',
      description:
        'Runners keep the workspaces of failed jobs for SVC_FAILED_WORKSPACE_SECONDS after the run. The shell runs in the ' +
        'same sandbox as the steps, with the variables that the failed step had, **secrets included**, and nothing in its ' +
        'output is masked. So it needs the permission `workflow:trigger`, too, and is only for the owner of the ' +
        'repository, collaborators with the role `admin`, and admins. It is recorded in the audit log. It ends after 30 ' +
        'minutes, when this token loses its access, and when its output was not requested for 20 seconds. A run has one ' +
        'shell at a time. The operations about a shell accept only the token that opened it.',
      permission: shellPermission,
      find,
      body: NewShell,
      reply: { 201: OpenedShell },
      problems: [
        ...problems,
        'run_not_found',
        'run_not_completed',
        'workspace_removed',
        'runner_unreachable',
        'encryption_key_missing',
        'shell_open',
      ],
      handle: async ({ principal, found, params, body }) =>
        shells.open(principal, found, await findRun(found, params.id), body),
    }),
    route('GET', '/repos/:name/workflows/:id/shells/:shell/output', {
      operationId: 'readShellOutput',
      tag: 'workflow runs',
      summary: 'Read the output of a shell',
      description:
        'Returns the output after the offset `after`, and acknowledges what is before it: that is discarded. Waits for up to ' +
        '`wait` seconds while there is none. With the last output, `end` says how the shell ended.',
      permission: shellPermission,
      find,
      isPolling: true,
      isLongLived: true,
      query: Type.Object({
        after: Type.Optional(Offset),
        wait: Type.Optional(
          Type.Integer({
            description: `seconds to wait, 0 (the default) to ${maxWaitSeconds}`,
            minimum: 0,
            maximum: maxWaitSeconds,
          }),
        ),
      }),
      reply: { 200: ShellOutput },
      problems: [...shellProblems],
      handle: async ({ principal, found, params, query, waitSignal }) => {
        const { after = 0, wait = 0 } = query
        const shell = await shellOf(principal, found, params)
        const waiting = { deadline: deadlineOf(wait), signal: waitSignal() }
        const { bytes, next, end } = await shells.readOutput(shell, after, waiting)
        return { data: bytes.toString('base64'), next, end }
      },
    }),
    route('POST', '/repos/:name/workflows/:id/shells/:shell/input', {
      operationId: 'writeShellInput',
      tag: 'workflow runs',
      summary: 'Write input to a shell',
      description:
        'Appends bytes at the offset `start`, as soon as there is space. Returns the next offset: when that is `start`, ' +
        'repeat the request. A request that is repeated has no further effect.',
      permission: shellPermission,
      find,
      isPolling: true,
      isLongLived: true,
      isServedWhenFull: true,
      body: ShellInput,
      reply: { 200: AppendedInput },
      problems: [...shellProblems],
      handle: async ({ principal, found, params, body, waitSignal }) => {
        const { start, data, end: isEnd = false } = body
        const shell = await shellOf(principal, found, params)
        const waiting = { deadline: deadlineOf(maxWaitSeconds), signal: waitSignal() }
        const input = { start, bytes: Buffer.from(data, 'base64'), isEnd }
        return { next: await shells.writeInput(shell, input, waiting) }
      },
    }),
    route('DELETE', '/repos/:name/workflows/:id/shells/:shell', {
      operationId: 'closeShell',
      tag: 'workflow runs',
      summary: 'Close a shell',
      description: 'Ends all its processes. Nothing happens when it has ended.',
      permission: shellPermission,
      find,
      reply: { 204: nothing },
      problems: [...shellProblems],
      handle: async ({ principal, found, params }) =>
        shells.close(await shellOf(principal, found, params)),
    }),
  ]
}

const size = (description: string) => Type.Integer({ description, minimum: 1, maximum: 10_000 })

const NewShell = Type.Object(
  {
    job: Type.Optional(
      Type.String({
        description: 'name of a failed job; needed if several have a workspace',
        minLength: 1,
        maxLength: 1000,
      }),
    ),
    terminal: Type.Optional(
      Type.Object(
        {
          columns: size('width in characters'),
          rows: size('height in lines'),
          term: Type.String({
            ...textForm('1 to 64 of A-Z a-z 0-9 . _ + -', '^[A-Za-z0-9._+-]{1,64}$'),
            description: 'value of TERM, such as `xterm-256color`',
            maxLength: 64,
          }),
        },
        { ...closed, description: 'terminal of the shell; without it, it reads from a pipe' },
      ),
    ),
  },
  closed,
)

const OpenedShell = named(
  'OpenedShell',
  Type.Object({
    id: Type.String({ description: 'id of the shell' }),
    job: Type.String({ description: 'name of the job' }),
    expiresAt: Type.Integer({
      description: 'when it ends at the latest, in milliseconds since the Unix epoch',
    }),
  }),
)

const ShellOutput = named(
  'ShellOutput',
  Type.Object({
    data: Type.String({ description: 'output in Base64' }),
    next: Type.Integer({ description: 'the offset after it' }),
    end: Type.Union(
      [
        Type.Object({
          exitCode: ShellEndBody.properties.exitCode,
          reason: Type.String({ description: 'why it ended, if not by itself; else empty' }),
        }),
        Type.Null(),
      ],
      { description: 'how the shell ended; null while it is open, or has more output' },
    ),
  }),
)

const ShellInput = Type.Object(
  {
    start: Offset,
    data: Piece,
    end: Type.Optional(Type.Boolean({ description: 'whether no more input comes' })),
  },
  closed,
)

const AppendedInput = named(
  'AppendedInput',
  Type.Object({ next: Type.Integer({ description: 'the offset that is expected next' }) }),
)
