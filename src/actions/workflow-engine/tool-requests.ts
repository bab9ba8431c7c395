import type { FoundTool, ToolRequest } from '../tool-cache/find-tool.ts'
import { listVersions } from '../tool-cache/find-tool.ts'
import { distributionNames, javaFolders, toolKinds } from '../tool-cache/tool-kinds.ts'
import type { Toolset } from '../tool-cache/toolset.ts'
import {
  type SetupAction,
  type SetupActionName,
  type SetupTool,
  setupActions,
} from '../workflow-parser/setup-actions.ts'
import { usualFiles, versionsInFile } from './version-files.ts'

/** A version that a step requests. */
export type RequestedVersion = {
  /** Specifications, in order of preference; an empty one fits every version. */
  specs: readonly string[]
  /** The input or the file that names it; empty if none does. */
  source: string
}

/** A step that sets up a tool, with its inputs. */
export type SetupRequest = {
  action: SetupActionName
  ref: string
  inputs: Readonly<Record<string, string>>
}

/** Reads a file of the workspace; undefined when there is none. */
type ReadFile = (path: string) => Promise<string | undefined>

/** The versions that a step requests by its inputs, else by a file; any version when none names one. */
export async function requestedVersions(
  request: SetupRequest,
  readFile: ReadFile,
): Promise<RequestedVersion[]> {
  const given = versionsInInputs(request)
  return given.length > 0 ? given : await versionsInFiles(request, readFile)
}

async function versionsInFiles(
  { action, inputs }: SetupRequest,
  readFile: ReadFile,
): Promise<RequestedVersion[]> {
  const { tool } = setupActions[action]
  const { fileInput }: SetupAction = setupActions[action]
  const named = (fileInput && inputs[fileInput]?.trim()) || undefined
  const folder = tool === 'ruby' ? (inputs['working-directory'] ?? '') : ''
  const paths = named === undefined ? (usualFiles[tool] ?? []) : [named]
  for (const path of paths) {
    const text = await readFile(folder === '' ? path : `${folder}/${path}`)
    if (text === undefined) continue
    const versions = versionsInFile(tool, path, text)
    if (versions.length > 0) return versions.map((spec) => toRequested(tool, spec, path))
    if (named !== undefined)
      throw new Error(`${path} names no version of ${toolKinds[tool].title}.`)
  }
  if (named !== undefined) throw new Error(`${fileInput}: there is no file ${named}.`)
  return [{ specs: [''], source: '' }]
}

// A version in go.mod is a minimum.
function toRequested(tool: SetupTool, spec: string, source: string): RequestedVersion {
  const isMinimum = tool === 'go' && /^\d[\d.]*$/.test(spec)
  return { specs: isMinimum ? [spec, `>=${spec}`] : [spec], source }
}

function versionsInInputs({ action, ref, inputs }: SetupRequest): RequestedVersion[] {
  const { versionInput, tool }: SetupAction = setupActions[action]
  const lines = (inputs[versionInput] ?? '').split('\n').map((line) => line.trim())
  const given = lines.filter((line) => line !== '' && !(tool === 'ruby' && line === 'default'))
  if (given.length > 0) return given.map((spec) => ({ specs: [spec], source: versionInput }))
  // dtolnay/rust-toolchain@1.75.0
  const isRust = action === 'dtolnay/rust-toolchain' && !/^(master|v\d+|[0-9a-f]{40}|)$/.test(ref)
  return isRust ? [{ specs: [ref], source: `${action}@${ref}` }] : []
}

/** Finds the tool of a requested version. Throws an error that lists those of the runner, and a VersionError. */
export async function findTool(
  toolset: Toolset,
  { action, inputs }: SetupRequest,
  version: RequestedVersion,
): Promise<FoundTool> {
  const { tool } = setupActions[action]
  for (const spec of version.specs) {
    // `3.14t` is free-threaded.
    const [, plain = spec] = (tool === 'python' && /^(\d[\d.]*)t(?=$|-)/.exec(spec)) || []
    const text = `${plain}${spec.slice(plain.length).replace(/^t/, '')}`
    const isFreeThreaded = inputs.freethreaded === 'true' || text !== spec
    const request: ToolRequest = { tool, spec: text, ...narrowed(tool, text, inputs) }
    if (inputs.architecture) request.architecture = inputs.architecture.trim()
    if (isFreeThreaded)
      request.architecture = `${request.architecture ?? process.arch}-freethreaded`
    if (isFreeThreaded) request.isSystemAllowed = false
    if (inputs['allow-prereleases'] === 'true') request.allowsPrereleases = true
    const found = await toolset.find(request)
    if (found) return found
  }
  throw new Error(await describeMissing(toolset, { action, inputs, version }))
}

/** What the text of a version and the inputs of a single action add to a request. */
function narrowed(
  tool: ToolRequest['tool'],
  text: string,
  inputs: SetupRequest['inputs'],
): Partial<ToolRequest> {
  if (tool === 'python') {
    const [, implementation, spec = ''] = /^(pypy|graalpy)-?(\d[\d.x]*)?/i.exec(text) ?? []
    if (implementation === undefined) return {}
    const names = implementation.toLowerCase() === 'pypy' ? ['PyPy'] : []
    return { spec, names, isSystemAllowed: false }
  }
  if (tool === 'ruby') {
    const [, implementation, spec = ''] =
      /^(jruby|truffleruby(?:\+graalvm)?|mruby)(?:-(.*))?$/i.exec(text) ?? []
    if (implementation === undefined) return {}
    const isNumber = /^\d/.test(spec)
    return {
      spec: isNumber ? spec : '',
      names: [implementation.toLowerCase()],
      isSystemAllowed: false,
    }
  }
  if (tool !== 'java') return {}
  const { distribution = '', 'java-package': pack = 'jdk' } = inputs
  const known = javaFolders(distribution, pack)
  if (!known) {
    const all = distributionNames.join(', ')
    throw new Error(`There is no distribution ${JSON.stringify(distribution)}; use one of ${all}.`)
  }
  return { names: known.names, isSystemAllowed: known.isOpenJdk && /^(jdk|jre)$/.test(pack) }
}

type Missing = Pick<SetupRequest, 'action' | 'inputs'> & { version: RequestedVersion }

/** Says which versions a runner has instead of the requested one. */
async function describeMissing(
  toolset: Toolset,
  { action, inputs, version }: Missing,
): Promise<string> {
  const { tool } = setupActions[action]
  const { title } = toolKinds[tool]
  const cached = await toolset.cached(tool, inputs.architecture || undefined)
  const system = await toolset.system(tool)
  const has = listVersions(tool, cached)
  if (system) has.push(`${system.version} on its PATH`)
  const [spec = ''] = version.specs
  const architecture = inputs.architecture ? ` for ${inputs.architecture}` : ''
  const wanted = spec === '' ? '' : ` ${JSON.stringify(spec)} (${version.source})`
  return has.length > 0
    ? `This runner has no ${title}${wanted}${architecture}. It has ${has.join('; ')}. Use one of these, or have the version added to a folder of SVC_TOOLS.`
    : `This runner has no ${title}. Have${wanted || ' it'} added to a folder of SVC_TOOLS.`
}
