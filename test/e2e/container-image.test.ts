// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cp, mkdir, readFile, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { promisify } from 'node:util'
import { freePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/git.ts'
import { packInto, root, unpack } from '../support/packed.ts'
import { startService } from '../support/service.ts'

const execute = promisify(execFile)

type Instruction = { name: string; value: string }

// The file as a list of instructions; the last stage is the image: docs.docker.com/reference/dockerfile.
let instructions: Instruction[]
let image: Instruction[]

before(async () => {
  const text = await readFile(join(root, 'deploy/Dockerfile'), 'utf8')
  const lines = text
    .replace(/^#.*\n/gm, '')
    .replace(/\\\n/g, ' ')
    .split('\n')
  instructions = lines
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, name = '', value = ''] = /^([A-Z]+) +(.*)$/.exec(line) ?? []
      assert.notEqual(name, '', line)
      return { name, value: value.trim() }
    })
  image = instructions.slice(instructions.findLastIndex(({ name }) => name === 'FROM'))
})

const valuesOf = (wanted: string) =>
  image.filter(({ name }) => name === wanted).map(({ value }) => value)

test('the image is made of official images, runs without root and without npm', () => {
  const known = /^(FROM|RUN|COPY|ENV|USER|WORKDIR|VOLUME|EXPOSE|HEALTHCHECK|ENTRYPOINT|CMD)$/
  for (const { name } of instructions) assert.match(name, known)
  const bases = instructions.filter(({ name }) => name === 'FROM').map(({ value }) => value)
  for (const base of bases) assert.match(base, /^(node:26|debian):?[\w-]*( AS \w+)?$/)
  assert.deepEqual(valuesOf('USER'), ['svc'])
  const names = image.map(({ name }) => name)
  assert.ok(names.lastIndexOf('RUN') < names.indexOf('USER'))
  assert.doesNotMatch(valuesOf('RUN').join(), /\bnpm\b|curl|wget/)
  assert.deepEqual(valuesOf('VOLUME'), ['/data'])
  assert.match(valuesOf('ENV').join(' '), /\bSVC_DATA_DIR=\/data\b/)
  assert.deepEqual(JSON.parse(valuesOf('ENTRYPOINT')[0] ?? ''), ['tini', '--', 'svc'])
  assert.deepEqual(JSON.parse(valuesOf('CMD')[0] ?? ''), ['serve'])
})

test('what the image copies is in the package, is not ignored, and runs with the Node on the PATH', async () => {
  await using folder = await temporaryFolder()
  const { archive, names } = await packInto(folder.path)
  const unpacked = await unpack(archive)
  const ignored = await readFile(join(unpacked, 'deploy/Dockerfile.dockerignore'), 'utf8')
  const system = join(folder.path, 'system')
  for (const value of valuesOf('COPY').filter((copy) => !copy.startsWith('--from='))) {
    const sources = value.split(' ')
    const target = sources.pop() ?? ''
    for (const source of sources) {
      assert.ok(
        names.some((name) => name === source || name.startsWith(`${source}/`)),
        source,
      )
      assert.ok(ignored.split('\n').includes(`!${source}`), source)
      const to = join(system, target, target.endsWith('/') ? source : '')
      await cp(join(unpacked, source), to, { recursive: true })
    }
  }
  // As the image has them: a link to the launcher, and Node.
  const bin = join(system, 'usr/local/bin')
  await mkdir(bin, { recursive: true })
  await symlink(process.execPath, join(bin, 'node'))
  assert.match(valuesOf('RUN').join(), /ln -s \/opt\/svc\/bin\/svc \/usr\/local\/bin\/svc/)
  await symlink('../../../opt/svc/bin/svc', join(bin, 'svc'))
  const env = { PATH: `${bin}:/usr/bin:/bin` }
  const { stdout } = await execute('sh', ['-c', 'command -v svc; svc --version'], { env })
  assert.match(stdout, /^\/.*\/usr\/local\/bin\/svc\n\d+\.\d+\.\d+\n$/)
  await using service = await startService({ program: join(bin, 'svc'), env })
  assert.equal((await service.admin.get('/health')).body.status, 'ok')
})

test('the health check of the image succeeds as long as the service is healthy', async () => {
  const [, command = ''] = / CMD (\[.*\])$/.exec(valuesOf('HEALTHCHECK')[0] ?? '') ?? []
  const [program = '', ...args]: string[] = JSON.parse(command)
  const check = (port: number) =>
    execute(program, args, { env: { PATH: process.env.PATH, SVC_PORT: `${port}` } }).then(
      () => 0,
      ({ code }) => code,
    )
  {
    await using service = await startService()
    assert.equal(await check(Number(new URL(service.url).port)), 0)
  }
  assert.equal(await check(await freePort()), 1)
  await using full = await startService({ env: { SVC_FREE_SPACE_MIN: '1024GiB' } })
  assert.equal(await check(Number(new URL(full.url).port)), 1)
})
