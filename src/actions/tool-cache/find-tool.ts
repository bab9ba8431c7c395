import { realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { findProgram } from '#base/find-program.ts'
import { askProgram } from '../sandbox/launch.ts'
import type { SetupTool } from '../workflow-parser/setup-actions.ts'
import { type CachedTool, readToolCache } from './read-tool-cache.ts'
import { selectVersion } from './select-version.ts'
import { toolKinds } from './tool-kinds.ts'
import { newestFirst, toSemanticVersion } from './tool-version.ts'

/** A tool that fits a request. */
export type FoundTool = {
  tool: SetupTool
  version: string
  /** The folder of the installation. */
  path: string
  program: string
  /** The name of its folder in the tool cache; undefined for a tool of the machine. */
  name: string | undefined
}

export type ToolRequest = {
  tool: SetupTool
  /** A specification of versions; see `selectVersion`. */
  spec: string
  allowsPrereleases?: boolean
  /** In the spelling of the actions; by default that of the runner. */
  architecture?: string
  /** The folders of the tool cache that fit, in order of preference; by default those of the tool. */
  names?: readonly string[]
  /** Whether the machine's own tool fits if its version does. */
  isSystemAllowed?: boolean
}

/** Finds the tools of a runner. */
export type ToolFinder = {
  /** Finds the newest tool that fits, first in the folders. Throws a VersionError for a malformed specification. */
  find: (request: ToolRequest) => Promise<FoundTool | undefined>
  /** All usable versions of a tool in the folders, by default for the runner's architecture. */
  cached: (tool: SetupTool, architecture?: string) => Promise<CachedTool[]>
  /** The machine's own version of a tool. */
  system: (tool: SetupTool) => Promise<SystemTool | undefined>
}

export type ToolsetOptions = {
  folders: readonly string[]
  /** The PATH of steps. */
  path: string
  /** As in `process.arch`. */
  architecture: string
}

/** Finds tools by version. Tools that are added to a folder later are found without a restart. */
export function createToolFinder({ folders, path, architecture }: ToolsetOptions): ToolFinder {
  const systemTools = createSystemTools(path)

  async function cached(tool: SetupTool, wanted = architecture): Promise<CachedTool[]> {
    const names = architectureNames(wanted)
    const all = await Promise.all(folders.map((folder) => readToolCache(folder, tool)))
    return all
      .flat()
      .filter((one) => isUsable(one) && names.includes(one.architecture.toLowerCase()))
  }

  return {
    cached,
    system: systemTools.find,

    async find(request) {
      const { tool, names = toolKinds[tool].folders, isSystemAllowed = true } = request
      const fitting = await cached(tool, request.architecture)
      for (const name of names) {
        const named = fitting.filter((one) => one.name === name)
        const version = selectVersion({ ...request, versions: named.map((one) => one.version) })
        const found = named.find((one) => one.version === version)
        if (found) return toFound(found)
      }
      const isNative = architectureNames(request.architecture ?? architecture).includes(
        architecture,
      )
      const own = isSystemAllowed && isNative && (await systemTools.find(tool))
      if (!own || selectVersion({ ...request, versions: [own.version] }) === undefined) {
        return undefined
      }
      const { version, program, realPath } = own
      return { tool, version, program, path: installationOf(realPath), name: undefined }
    },
  }
}

function isUsable({ isComplete, program }: CachedTool): boolean {
  return isComplete && program !== undefined
}

function toFound({ tool, version, path, program = '', name }: CachedTool): FoundTool {
  return { tool, version, path, program, name }
}

// `/usr/lib/jvm/java-21` for its `bin/java`.
function installationOf(program: string): string {
  const folder = dirname(program)
  return folder.endsWith('/bin') ? dirname(folder) : folder
}

/** The names that actions and installers give an architecture, in lower case. */
function architectureNames(name: string): string[] {
  const [base = '', ...variant] = name.toLowerCase().split('-')
  const group = [
    ['x64', 'amd64', 'x86_64'],
    ['arm64', 'aarch64'],
    ['x86', 'ia32', 'i386'],
  ].find((names) => names.includes(base))
  return (group ?? [base]).map((one) => [one, ...variant].join('-'))
}

/** Lists the versions of a tool for messages, the newest first; those of Java by distribution. */
export function listVersions(tool: SetupTool, cached: readonly CachedTool[]): string[] {
  const names = [...new Set(cached.map(({ name }) => name))]
  return names.map((name) => {
    const versions = cached.filter((one) => one.name === name).map(({ version }) => version)
    const list = newestFirst([...new Set(versions)]).join(', ')
    return toolKinds[tool].folders.includes(name) ? list : `${name} ${list}`
  })
}

/** A tool that the machine itself has. */
type SystemTool = {
  tool: SetupTool
  version: string
  /** As found on the PATH, and the file to which that leads. */
  program: string
  realPath: string
}

const timeoutMs = 10_000

/** Finds the machine's own tools on a PATH. A program is started once, and again when its file changes. */
function createSystemTools(path: string) {
  const known = new Map<string, Promise<string | undefined>>()

  function versionOf(tool: SetupTool, program: string, realPath: string) {
    const { mtimeMs, size, ino } = statSync(realPath)
    const key = JSON.stringify([program, realPath, mtimeMs, size, ino])
    const found = known.get(key) ?? askVersion(tool, program, path)
    known.set(key, found)
    return found
  }

  return {
    async find(tool: SetupTool): Promise<SystemTool | undefined> {
      for (const name of toolKinds[tool].programs) {
        const program = findProgram(name, path)
        if (program === undefined) continue
        const realPath = realpathSync(program)
        const version = await versionOf(tool, program, realPath)
        if (version !== undefined) return { tool, version, program, realPath }
      }
      return undefined
    },
  }
}

async function askVersion(
  tool: SetupTool,
  program: string,
  path: string,
): Promise<string | undefined> {
  const { versionArguments, versionPattern } = toolKinds[tool]
  const output = await askProgram([program, ...versionArguments], { path, timeoutMs })
  const [, text] = versionPattern.exec(output) ?? []
  return text === undefined ? undefined : toSemanticVersion(tool, text)
}
