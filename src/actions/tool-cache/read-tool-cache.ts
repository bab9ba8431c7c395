import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { isAbsence } from '#base/absence.ts'
import type { SetupTool } from '../workflow-parser/setup-actions.ts'
import { toolKinds, toolOfFolder } from './tool-kinds.ts'
import { toSemanticVersion } from './tool-version.ts'

/** A tool in a folder of the tool cache: `<folder>/<name>/<version>/<architecture>`. */
export type CachedTool = {
  tool: SetupTool
  /** The name of its folder, such as `Java_Temurin-Hotspot_jdk`. */
  name: string
  /** A semantic version. */
  version: string
  architecture: string
  path: string
  /** The path of its program; undefined when it is missing. */
  program: string | undefined
  /** Whether `<architecture>.complete` exists, which is written when an installation ends. */
  isComplete: boolean
}

const toNothing = (error: unknown) => {
  if (isAbsence(error)) return []
  throw error
}

/** Lists the tools of a folder; `tool` limits it to one. A missing folder has none. */
export async function readToolCache(folder: string, tool?: SetupTool): Promise<CachedTool[]> {
  const names = await readdir(folder).catch(toNothing)
  const found: CachedTool[] = []
  for (const name of names.sort()) {
    const kind = toolOfFolder(name)
    if (kind === undefined || (tool !== undefined && tool !== kind)) continue
    found.push(...(await versionsOf(join(folder, name), kind, name)))
  }
  return found
}

async function versionsOf(path: string, tool: SetupTool, name: string): Promise<CachedTool[]> {
  const found: CachedTool[] = []
  for (const entry of (await foldersIn(path)).sort()) {
    // A link such as `22` has no whole version, and leads to a folder that has one.
    const isWhole = /^\d+\.\d+\.\d+/.test(entry)
    const version = isWhole ? toSemanticVersion(tool, entry) : undefined
    if (version === undefined) continue
    for (const architecture of (await foldersIn(join(path, entry))).sort()) {
      const own = join(path, entry, architecture)
      found.push({
        ...{ tool, name, version, architecture, path: own },
        program: programIn(own, tool),
        isComplete: existsSync(`${own}.complete`),
      })
    }
  }
  return found
}

async function foldersIn(path: string): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true }).catch(toNothing)
  return entries
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map(({ name }) => name)
    .filter((name) => !name.endsWith('.complete'))
}

function programIn(path: string, tool: SetupTool): string | undefined {
  const { programs } = toolKinds[tool]
  const candidates = programs.flatMap((name) => [join(path, 'bin', name), join(path, name)])
  return candidates.find((candidate) => existsSync(candidate))
}
