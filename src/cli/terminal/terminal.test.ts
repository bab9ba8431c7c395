import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'

test('a second signal ends a program that was interrupted by another one', async () => {
  const url = JSON.stringify(new URL('terminal.ts', import.meta.url).href)
  const script = `const { openKeyboard } = await import(${url})
    const { interrupted } = openKeyboard(process)
    interrupted.addEventListener('abort', () => console.log('interrupted'))
    setInterval(() => {}, 1000)
    console.log('ready')`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'pipe' })
  const ended = once(child, 'exit')
  assert.match(String(await once(child.stdout, 'data')), /ready/)
  child.kill('SIGINT')
  assert.match(String(await once(child.stdout, 'data')), /interrupted/)
  child.kill('SIGTERM')
  assert.deepEqual(await ended, [null, 'SIGTERM'])
})
