import type { Principal } from '#access/principal.ts'
import {
  FailedWorkspaceBody,
  ShellAppended,
  ShellClaim,
  ShellClaimBody,
  ShellEndBody,
  ShellInput,
  ShellInputBody,
  ShellOutputBody,
} from '#actions/runner-api/shell-api.ts'
import { waitMaxSeconds } from '#actions/runner-api/transfer-limits.ts'
import { named } from '#http/named-schemas.ts'
import { nothing, route } from '#http/route.ts'
import type { RunnerShells, RunOfWorkspace } from './runner-shells.ts'

type Dependencies = {
  shells: RunnerShells
  /** The run that the token of a run is for. Throws `run_not_found`. */
  heldRun: (principal: Principal, id: string) => Promise<RunOfWorkspace>
}

/** The routes with which runners serve shells. */
export function runnerShellRoutes({ shells, heldRun }: Dependencies) {
  const deadlineOf = (seconds: number) => performance.now() + seconds * 1000

  return [
    route('POST', '/runner/runs/:id/workspaces', {
      operationId: 'keepWorkspace',
      tag: 'runners',
      summary: 'Record that the workspace of a failed job is kept',
      permission: 'run',
      body: FailedWorkspaceBody,
      reply: { 204: nothing },
      problems: ['run_not_found'],
      handle: async ({ principal, params, body }) =>
        shells.register(await heldRun(principal, params.id), body),
    }),
    route('POST', '/runner/shells/claim', {
      operationId: 'claimShell',
      tag: 'runners',
      summary: 'Wait for a shell to start',
      description:
        'For runners that keep workspaces. Also returns when a workspace need not be kept any longer; 204 if nothing ' +
        'happens in time.',
      permission: 'runner',
      isPolling: true,
      isLongLived: true,
      isServedWhenFull: true,
      body: ShellClaimBody,
      reply: { 200: named('ShellClaim', ShellClaim), 204: nothing },
      handle: async ({ body, setStatus, waitSignal }) => {
        const waiting = { deadline: deadlineOf(body.waitSeconds), signal: waitSignal() }
        const claimed = await shells.claim(body, waiting)
        if (!claimed) setStatus(204)
        return claimed
      },
    }),
    route('POST', '/runner/shells/:id/input', {
      operationId: 'readShellInput',
      tag: 'runners',
      summary: 'Wait for input of a shell, or its end',
      permission: 'runner',
      isPolling: true,
      isLongLived: true,
      isServedWhenFull: true,
      body: ShellInputBody,
      reply: { 200: named('ShellInput', ShellInput) },
      problems: ['shell_not_found'],
      handle: ({ params, body, waitSignal }) =>
        shells.readInput(params.id, body, {
          deadline: deadlineOf(body.waitSeconds),
          signal: waitSignal(),
        }),
    }),
    route('POST', '/runner/shells/:id/output', {
      operationId: 'writeShellOutput',
      tag: 'runners',
      summary: 'Append output of a shell',
      description:
        'Waits until there is space. Returns the next offset: when that is `start`, repeat the request.',
      permission: 'runner',
      isPolling: true,
      isLongLived: true,
      isServedWhenFull: true,
      body: ShellOutputBody,
      reply: { 200: named('ShellAppended', ShellAppended) },
      problems: ['shell_not_found'],
      handle: async ({ params, body, waitSignal }) => {
        const { holder, start, data } = body
        const waiting = { deadline: deadlineOf(waitMaxSeconds / 2), signal: waitSignal() }
        const output = { holder, start, bytes: Buffer.from(data, 'base64') }
        return { next: await shells.writeOutput(params.id, output, waiting) }
      },
    }),
    route('POST', '/runner/shells/:id/end', {
      operationId: 'endShell',
      tag: 'runners',
      summary: 'Record the end of a shell',
      permission: 'runner',
      isServedWhenFull: true,
      body: ShellEndBody,
      reply: { 204: nothing },
      problems: ['shell_not_found'],
      handle: ({ params, body }) => shells.end(params.id, body),
    }),
  ]
}
