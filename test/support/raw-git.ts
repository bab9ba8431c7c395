import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { formatCapability } from './object-format.ts'

const execute = promisify(execFile)

/** The body of a push that creates branches: a command for each, then a pack of all that their commit needs. */
export function pushBody(project: string, ...branches: string[]): Promise<Buffer> {
  return pushBodyWith(project, { branches })
}

/** The body of such a push of one branch as git sends it, which takes the report in bands. */
export function usualPushBody(project: string, branch: string): Promise<Buffer> {
  return pushBodyWith(project, {
    branches: [branch],
    capabilities: 'report-status side-band-64k quiet',
  })
}

/** The body of such a push with the option `wait`, whose response has progress and the report in bands. */
export function waitingPushBody(project: string, branch: string): Promise<Buffer> {
  const capabilities = 'report-status side-band-64k push-options'
  return pushBodyWith(project, { branches: [branch], capabilities, options: ['wait'] })
}

type PushParts = { branches: string[]; capabilities?: string; options?: string[] }

async function pushBodyWith(project: string, parts: PushParts): Promise<Buffer> {
  return toPushBody(await packOf(project), parts)
}

/** A commit, and a pack of all that it needs. */
export async function packOf(project: string): Promise<{ id: string; pack: Buffer }> {
  const run = (args: string[]) =>
    execute('git', args, { cwd: project, encoding: 'buffer', maxBuffer: 2 ** 30 })
  const { stdout: id } = await run(['rev-parse', 'HEAD'])
  const { stdout: ids } = await run(['rev-list', '--objects', '--no-object-names', 'HEAD'])
  const pack = run(['pack-objects', '--stdout', '--quiet'])
  pack.child.stdin?.end(ids)
  return { id: id.toString().trim(), pack: (await pack).stdout }
}

/** The body of a push that creates branches. Each character of the texts is a byte. */
export function toPushBody(
  { id, pack }: Awaited<ReturnType<typeof packOf>>,
  { branches, capabilities = 'report-status', options = [] }: PushParts,
): Buffer {
  const line = (text: string) => packet(Buffer.from(text, 'latin1'))
  const commands = branches.map((branch, index) => {
    const command = `${'0'.repeat(id.length)} ${id} refs/heads/${branch}`
    return line(index === 0 ? `${command}\0 ${capabilities}${formatCapability}` : command)
  })
  const optionLines = options.length > 0 ? [...options.map(line), flushPacket] : []
  return Buffer.concat([...commands, flushPacket, ...optionLines, pack])
}

/** The body of a push that deletes a branch. */
export function deletionBody(
  branch: string,
  before: string,
  capabilities = 'report-status',
): Buffer {
  const command = `${before} ${'0'.repeat(before.length)} refs/heads/${branch}\0 ${capabilities}${formatCapability}`
  return Buffer.concat([packet(command), flushPacket])
}

/** The body of a clone of a commit, in version 0 of the protocol. */
export function cloneBody(commit: string): Buffer {
  return Buffer.concat([
    packet(`want ${commit} side-band-64k ofs-delta no-progress${formatCapability}\n`),
    flushPacket,
    packet('done\n'),
  ])
}

/** The headers of a Git request with a token and a body of a known size; without a size it is chunked. */
export function gitHeaders(
  service: 'git-upload-pack' | 'git-receive-pack',
  token: string,
  size?: number,
): Record<string, string | number> {
  return {
    authorization: `Basic ${Buffer.from(`git:${token}`).toString('base64')}`,
    'content-type': `application/x-${service}-request`,
    ...(size === undefined ? { 'transfer-encoding': 'chunked' } : { 'content-length': size }),
  }
}
