import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'

type Shell = ChildProcessByStdio<Writable, Readable, null>

type Program = { cwd: string; args: string[]; env: Record<string, string> }

/**
 * Runs programs from a shell, each in a process of its own with nothing to read. A fork copies the page tables of its
 * parent, which for this process takes longer than most commands of git do.
 */
export function createForkingShell(environment: NodeJS.ProcessEnv) {
  const pending = new Map<string, (exitCode: number) => void>()
  let shell: Shell | undefined
  let folder = ''
  let count = 0

  function start(): Shell {
    folder = mkdtempSync(join(tmpdir(), 'svc-shell-'))
    process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
    const child = spawn('sh', [], { env: environment, stdio: ['pipe', 'pipe', 'ignore'] })
    createInterface({ input: child.stdout }).on('line', (line) => {
      const [id = '', exitCode] = line.split(' ')
      pending.get(id)?.(Number(exitCode))
      pending.delete(id)
      if (pending.size === 0) keepRunning(child, false)
    })
    return child
  }

  return {
    /** Runs a program to its end. One that a signal ends has the exit code of a shell: 128 and its number. */
    async run({ cwd, args, env }: Program) {
      shell ??= start()
      const id = String(count++)
      const path = join(folder, id)
      const { promise, resolve } = Promise.withResolvers<number>()
      pending.set(id, resolve)
      keepRunning(shell, true)
      const variables = Object.entries(env).map(([name, value]) => `${name}=${quote(value)}`)
      const exported = variables.length > 0 ? `export ${variables.join(' ')}; ` : ''
      const command = `cd ${quote(cwd)} && ${exported}exec ${args.map(quote).join(' ')}`
      // Its descendants, such as ssh, may write messages after its end: `cat` waits for them.
      const run = `{ (${command}) </dev/null 2>&1 >${path}.out; echo "$?" >${path}.code; }`
      // `jobs` waits for the programs that have ended: dash leaves them as zombies until then.
      shell.stdin.write(
        `jobs >/dev/null; ( ${run} | cat >${path}.err; read -r code <${path}.code; echo "${id} $code" ) &\n`,
      )
      const exitCode = await promise
      const [stdout, stderr] = await Promise.all(
        ['out', 'err'].map((kind) => takeText(`${path}.${kind}`)),
      )
      await rm(`${path}.code`)
      return { exitCode, stdout: stdout ?? '', stderr: stderr ?? '' }
    },
  }
}

/** Quotes a word for any shell (POSIX, 2.2.2), with control characters as they are: `shellWord` is for shells that people use. */
function quote(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`
}

async function takeText(path: string): Promise<string> {
  const text = await readFile(path, 'utf8')
  await rm(path)
  return text
}

/** Decides whether the shell keeps this process from exiting. */
function keepRunning(shell: Shell, isNeeded: boolean): void {
  const method = isNeeded ? 'ref' : 'unref'
  shell[method]()
  for (const stream of [shell.stdin, shell.stdout])
    if (method in stream) (stream as unknown as NodeJS.Timeout)[method]()
}
