import { realpathSync, statSync } from 'node:fs'
import { findProgram } from '#base/find-program.ts'
import { askProgram } from '../sandbox/launch.ts'
import type { SetupTool } from '../workflow-parser/setup-actions.ts'
import { toolKinds } from './tool-kinds.ts'
import { toSemanticVersion } from './tool-version.ts'

/** A tool that the machine itself has. */
export type SystemTool = {
  tool: SetupTool
  version: string
  /** As found on the PATH, and the file to which that leads. */
  program: string
  realPath: string
}

const timeoutMs = 10_000

/** Finds the machine's own tools on a PATH. A program is started once, and again when its file changes. */
export function createSystemTools(path: string) {
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
