import type { HostRule } from '#base/outbound/host-rules.ts'
import type { SetupActionName } from './setup-actions.ts'

/** A file of a commit; `path` is relative to the root of the repository. */
export type SourceFile = { path: string; text: string }

/** A position in a file; lines and columns count from 1. */
export type SourcePosition = { file: string; line: number; column: number }

/** A fault in a file, and what to write instead. */
export type Fault = SourcePosition & { message: string; instead: string }

/** A key or value that is accepted although it has no effect, or not GitHub's. */
export type Note = SourcePosition & { message: string }

/** A text of a workflow that may contain expressions, `${{ … }}`, and its position. */
export type Template = { text: string; position: SourcePosition }

/** JSON, with texts that may hold expressions. */
export type TemplateTree =
  | Template
  | number
  | boolean
  | null
  | TemplateTree[]
  | { tree: Record<string, TemplateTree> }

/** Texts by name, in the order of the file, such as variables for steps; or an expression that gives them. */
export type Environment = Record<string, Template> | Template

export type Defaults = { shell: Template | undefined; workingDirectory: Template | undefined }

/** A parsed workflow file, in GitHub's syntax as far as docs/workflows.md describes, or in the short form. */
export type Workflow = {
  path: string
  /** Its `name`, else its path. */
  name: string
  runName: Template | undefined
  on: WorkflowTriggers
  env: Environment
  defaults: Defaults
  concurrency: Concurrency | undefined
  /** The names of the secrets for its steps; `inherit` for all, undefined for those that its text names. */
  secrets: string[] | 'inherit' | undefined
  /** Its `permissions`; undefined when it has none. Those of a job replace them. */
  permissions: JobPermissions | undefined
  /** The hosts that its steps may reach, empty for none; undefined for all that the runner allows. */
  network: HostRule[] | undefined
  /** In the order of the file; never empty. The short form makes one, with the id `steps`. */
  jobs: Job[]
}

export type AccessLevel = 'none' | 'read' | 'write'

/** The permissions of a job's token, and whether the job may request ID tokens. */
export type JobPermissions = { contents: AccessLevel; actions: AccessLevel; idToken: boolean }

export type Concurrency = { group: Template; cancelInProgress: Template | boolean }

/** The events that start a workflow; undefined for each that does not. */
export type WorkflowTriggers = {
  push: PushFilter | undefined
  /** A version of a change. */
  pullRequest: ProposalFilter | undefined
  /** A commit that is to land by the queue. */
  mergeGroup: ProposalFilter | undefined
  dispatch: { inputs: Record<string, Input> } | undefined
  schedule: { cron: string; timezone: string | undefined; position: SourcePosition }[]
  call: CallInterface | undefined
}

/** The interface of a workflow to the jobs that call it. */
export type CallInterface = {
  inputs: Record<string, CallInput>
  outputs: Record<string, Template>
  secrets: Record<string, { required: boolean }>
}

export type CallInput = {
  type: 'string' | 'boolean' | 'number'
  required: boolean
  default: Template | number | boolean | undefined
}

/** Patterns of GitHub's filters; undefined where none are given. */
export type PushFilter = {
  branches: string[] | undefined
  branchesIgnore: string[] | undefined
  tags: string[] | undefined
  tagsIgnore: string[] | undefined
  paths: string[] | undefined
  pathsIgnore: string[] | undefined
}

/** The same, with branches that commits are proposed for; `types` are the actions that start it, undefined for all. */
export type ProposalFilter = PushFilter & { types: string[] | undefined }

/** An input of a dispatch. */
export type Input = {
  type: 'string' | 'boolean' | 'number' | 'choice'
  description: string
  required: boolean
  default: string | number | boolean | undefined
  /** The values of a choice. */
  options: string[]
}

export type Job = {
  id: string
  name: Template | undefined
  needs: string[]
  if: Template | undefined
  /** Labels; an expression may give a list. */
  runsOn: TemplateTree | undefined
  /** An expression for the image of its container; those jobs for which it is not empty are skipped. */
  container: Template | undefined
  env: Environment
  defaults: Defaults
  outputs: Record<string, Template>
  strategy: Strategy
  /** Instead of the workflow's. */
  network: HostRule[] | undefined
  timeoutMinutes: Template | number | undefined
  continueOnError: Template | boolean
  permissions: JobPermissions | undefined
  /** Empty for a job that calls a workflow, or is skipped. */
  steps: Step[]
  call: WorkflowCall | undefined
  /** Why no runner can run it, so that it is skipped. Its actions may add reasons. */
  unsupported: Fault[]
  position: SourcePosition
}

/** The call of another workflow of the repository, in place of steps. */
export type WorkflowCall = {
  /** From the top of the repository, `.github/workflows/build.yml`. */
  path: string
  with: Record<string, TemplateTree>
  secrets: Record<string, Template> | 'inherit'
  position: SourcePosition
}

export type Strategy = {
  matrix: Matrix | undefined
  failFast: Template | boolean
  maxParallel: Template | number | undefined
}

/** A matrix; any part of it, or the whole, may be an expression that gives it. */
export type Matrix =
  | Template
  | {
      /** Lists of values by name. */
      vectors: Record<string, TemplateTree>
      include: TemplateTree | undefined
      exclude: TemplateTree | undefined
    }

export type AnyStep = {
  id: string | undefined
  name: Template | undefined
  if: Template | undefined
  env: Environment
  timeoutMinutes: Template | number | undefined
  continueOnError: Template | boolean
  position: SourcePosition
}

export type RunStep = AnyStep & {
  kind: 'run'
  run: Template
  shell: Template | undefined
  workingDirectory: Template | undefined
}

/** An action of the repository itself. */
export type ActionStep = AnyStep & {
  kind: 'action'
  /** Its folder from the top of the repository, `.github/actions/build`. */
  path: string
  with: Environment
}

/** The inputs of `actions/checkout` with an effect, in camel case. */
export type CheckoutInput =
  | 'repository'
  | 'ref'
  | 'path'
  | 'clean'
  | 'fetchDepth'
  | 'fetchTags'
  | 'token'
  | 'persistCredentials'

/** `actions/checkout`; without inputs it has nothing to do, because the workspace has the commit from the start. */
export type CheckoutStep = AnyStep & {
  kind: 'checkout'
  with: Partial<Record<CheckoutInput, Template>>
}

/** An action of another repository that does nothing here, because the run is correct without it. */
export type OmittedStep = AnyStep & { kind: 'omitted'; action: string; why: string }

/** The actions of GitHub that keep files between jobs and runs, which the runner implements. */
export type StorageAction =
  | 'cache'
  | 'cache/restore'
  | 'cache/save'
  | 'upload-artifact'
  | 'download-artifact'

export type StorageStep = AnyStep & {
  kind: 'storage'
  action: StorageAction
  with: Record<string, Template>
}

/** An action that sets up a tool, which the runner provides. */
export type SetupStep = AnyStep & {
  kind: 'setup'
  action: SetupActionName
  /** The part after `@`: a version of the action; with dtolnay/rust-toolchain, of Rust. */
  ref: string
  /** Keyed by names in lower case. */
  with: Record<string, Template>
}

export type Step = RunStep | ActionStep | CheckoutStep | OmittedStep | StorageStep | SetupStep

/** A parsed action: composite, with run steps that all name a shell, or a program for Node.js. */
export type Action = {
  /** Its folder from the top of the repository. */
  path: string
  name: string
  inputs: Record<string, { required: boolean; default: Template | undefined }>
  /** Empty for a program, which sets its outputs itself. */
  outputs: Record<string, Template>
  /** Empty for a program. */
  steps: Step[]
  program: ActionProgram | undefined
  /** Why no runner can run it, so that jobs that use it are skipped. */
  unsupported: Fault[]
}

/** The files of an action for Node.js, relative to its folder. */
export type ActionProgram = {
  /** The version that the action names, such as `node24`. */
  using: string
  main: string
  /** Before the steps of the job. */
  pre: ActionHook | undefined
  /** After the steps of the job. */
  post: ActionHook | undefined
}

/** A part of an action that runs before or after the steps of the job; without a condition it always does. */
export type ActionHook = { file: string; if: Template | undefined }
