import { dirname } from 'node:path'
import type { SetupTool } from '../workflow-parser/setup-actions.ts'
import { type CachedTool, readToolCache } from './read-tool-cache.ts'
import { selectVersion } from './select-version.ts'
import { createSystemTools } from './system-tool.ts'
import { toolKinds } from './tool-kinds.ts'
import { newestFirst } from './tool-version.ts'
import type { FoundTool, ToolFinder, ToolsetOptions } from './toolset.ts'

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
