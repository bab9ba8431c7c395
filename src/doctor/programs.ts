import { execFile } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'

const timeoutMs = 5000
const outputMaxBytes = 65_536

/** Where a program is; undefined when it is not there for whoever asks. */
export function findProgram(name: string, path: string): string | undefined {
  const folders = path.split(delimiter).filter(isAbsolute)
  return folders.map((folder) => join(folder, name)).find(isProgram)
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

/** Tries a program out, without a shell and for a short while: what it printed, or why it failed. */
export function tryProgram(
  program: string,
  args: string[],
): Promise<{ isFine: boolean; text: string }> {
  const options = { env: {}, cwd: '/', timeout: timeoutMs, maxBuffer: outputMaxBytes }
  return new Promise((resolve) => {
    execFile(program, args, { ...options, killSignal: 'SIGKILL' }, (error, output, complaint) => {
      const isLate = error?.killed === true
      const text = error
        ? complaint.trim() || (isLate ? 'no answer' : error.message)
        : output.trim()
      resolve({ isFine: error === null, text: text.split('\n')[0]?.slice(0, 200) ?? '' })
    }).stdin?.end()
  })
}
