import { type Static, Type } from 'typebox'
import { closed, textForm } from '#base/schema-options.ts'
import { shellPieceMaxBytes, waitMaxSeconds } from './transfer-limits.ts'

// Shells in the workspaces of failed jobs. A runner that keeps a workspace has a secret of its own, the holder, which
// authorizes its requests about workspaces and shells together with a token that has the permission `runner`.

const maxWorkspaces = 100
const base64MaxLength = Math.ceil(shellPieceMaxBytes / 3) * 4

const idForm = textForm('an id of 26 of 0-9 a-z', '^[0-9a-z]{26}$')
const Id = Type.String(idForm)
const Holder = Type.String({
  description: 'the secret of the runner for the workspaces that it keeps',
  minLength: 1,
  maxLength: 100,
})
const waitSeconds = Type.Integer({
  description: `how long to wait, 0 to ${waitMaxSeconds} seconds`,
  minimum: 0,
  maximum: waitMaxSeconds,
})
export const Offset = Type.Integer({
  description: 'number of bytes before, from 0',
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
})
export const Piece = Type.String({
  ...textForm(`up to ${shellPieceMaxBytes / 1024} KiB in Base64`, '^[A-Za-z0-9+/]*={0,2}$'),
  maxLength: base64MaxLength,
})

/** `POST /runner/runs/:id/workspaces`: says that the workspace of a failed job is kept. Responds with 204. */
export const FailedWorkspaceBody = Type.Object(
  {
    id: Type.String({ ...idForm, description: 'an id, new for each workspace' }),
    job: Type.String({ description: 'name of the job', maxLength: 1000 }),
    keptSeconds: Type.Integer({
      description: 'for how long after the end of the run it is kept',
      minimum: 1,
      maximum: 86_400,
    }),
    holder: Holder,
  },
  closed,
)

/** `POST /runner/shells/claim`: waits for a shell to start. Responds with 200 and ShellClaim, or with 204. */
export const ShellClaimBody = Type.Object(
  {
    holder: Holder,
    workspaces: Type.Array(Id, {
      description: 'ids of the workspaces that are kept',
      maxItems: maxWorkspaces,
    }),
    removed: Type.Array(Id, {
      description: 'ids of workspaces that have been removed',
      maxItems: maxWorkspaces,
    }),
    waitSeconds,
  },
  closed,
)

/** A shell to start. `columns` is null for one without a terminal. */
export const ShellStart = Type.Object({
  id: Type.String({ description: 'id of the shell' }),
  workspaceId: Type.String({ description: 'id of its workspace' }),
  columns: Type.Union([Type.Integer(), Type.Null()], { description: 'width of the terminal' }),
  rows: Type.Union([Type.Integer(), Type.Null()], { description: 'height of the terminal' }),
  term: Type.String({ description: 'value of TERM' }),
  timeoutMs: Type.Integer({ description: 'milliseconds after which it ends' }),
})

export const ShellClaim = Type.Object({
  shell: Type.Union([ShellStart, Type.Null()], {
    description: 'a shell to start, if there is one',
  }),
  gone: Type.Array(Type.String(), { description: 'ids of workspaces that need not be kept' }),
})

/** `POST /runner/shells/:id/input`: waits for input after an offset, or for the end. */
export const ShellInputBody = Type.Object(
  {
    holder: Holder,
    after: Offset,
    wantsInput: Type.Boolean({
      description: 'false to wait for the end only: all input was read, or the shell does not read',
    }),
    waitSeconds,
  },
  closed,
)

export const ShellInput = Type.Object({
  data: Type.String({ description: 'input in Base64' }),
  next: Type.Integer({ description: 'the offset after it' }),
  isClosed: Type.Boolean({ description: 'whether this is the end of the input' }),
  end: Type.Union([Type.String(), Type.Null()], {
    description: 'why the shell is to be ended; null while it is not',
  }),
})

/** `POST /runner/shells/:id/output`: appends output once it fits into the window. */
export const ShellOutputBody = Type.Object({ holder: Holder, start: Offset, data: Piece }, closed)

export const ShellAppended = Type.Object({
  next: Type.Integer({ description: 'the offset that is expected next' }),
})

/** `POST /runner/shells/:id/end`: says that all processes of the shell have ended. Responds with 204. */
export const ShellEndBody = Type.Object(
  {
    holder: Holder,
    exitCode: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description: 'exit code of the shell; null when it was killed or did not start',
    }),
    reason: Type.String({
      description: 'why it ended, if not by itself; else empty',
      maxLength: 1000,
    }),
  },
  closed,
)

export type FailedWorkspaceBody = Static<typeof FailedWorkspaceBody>
export type ShellClaimBody = Static<typeof ShellClaimBody>
export type ShellClaim = Static<typeof ShellClaim>
export type ShellStart = Static<typeof ShellStart>
export type ShellInputBody = Static<typeof ShellInputBody>
export type ShellInput = Static<typeof ShellInput>
export type ShellOutputBody = Static<typeof ShellOutputBody>
export type ShellAppended = Static<typeof ShellAppended>
export type ShellEndBody = Static<typeof ShellEndBody>
