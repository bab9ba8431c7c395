import type { Readable } from 'node:stream'
import { gitCommands } from '#git/process/commands.ts'
import { backgroundCpuSeconds, type Git } from '#git/process/git-process.ts'

const maxOutputLength = 16_384

type Options = Omit<NonNullable<Parameters<Git['start']>[1]>, 'limits'> & { signal?: AbortSignal }

/** Runs git-fsck(1) on a repository; returns its exit code, and the start of what it reports, without notices. */
export async function fsck(
  git: Git,
  directory: string,
  { signal, ...options }: Options,
): Promise<{ exitCode: number | null; lines: string[] }> {
  const limits = { cpuMaxSeconds: backgroundCpuSeconds }
  await using child = await git.start(gitCommands.fsck(directory), { ...options, limits })
  const stop = () => child[Symbol.asyncDispose]()
  signal?.addEventListener('abort', stop, { once: true })
  child.stdin.end()
  const [output, { exitCode, errorOutput }] = await Promise.all([head(child.stdout), child.ended])
  signal?.removeEventListener('abort', stop)
  signal?.throwIfAborted()
  const lines = `${errorOutput}\n${output}`.split('\n')
  return { exitCode, lines: lines.filter((line) => /\S/.test(line) && !/^notice:/.test(line)) }
}

// The output for a damaged repository can be very long.
async function head(stream: Readable): Promise<string> {
  let text = ''
  for await (const chunk of stream.setEncoding('utf8')) {
    if (text.length < maxOutputLength) text += chunk
  }
  return text.slice(0, maxOutputLength)
}
