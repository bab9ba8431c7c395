import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anonymousFrom, limitKeyOf, type Principal } from './principal.ts'

const permissions = new Set<never>()

function keysOf(principals: Omit<Principal, 'permissions'>[]): string[] {
  return [...new Set(principals.map((one) => limitKeyOf({ ...one, permissions })))]
}

test('limits count by user: neither more tokens, keys nor runs give a user more', () => {
  const own = keysOf([
    { kind: 'token', id: '1', username: 'ada' },
    { kind: 'token', id: '2', username: 'ada', isDelegated: true },
    { kind: 'ssh-key', id: '3', username: 'ada' },
  ])
  const jobs = keysOf([
    { kind: 'job', id: '4', tokenHash: 'a', username: 'run-1[bot]', causedBy: 'ada' },
    { kind: 'job', id: '5', tokenHash: 'b', username: 'run-2[bot]', causedBy: 'ada' },
  ])
  const others = keysOf([
    { kind: 'token', id: '6', username: 'grace' },
    { kind: 'token', id: '9', username: 'runner' },
    { kind: 'token', id: '10', username: 'd' },
    { kind: 'job', id: '7', tokenHash: 'c', username: 'run-1[bot]', causedBy: 'grace' },
    { kind: 'run', id: '8', tokenHash: 'd', username: '' },
    { kind: 'run', id: '8', tokenHash: 'e', username: '' },
    { kind: 'runner', id: 'runner', username: '' },
  ])
  assert.deepEqual([own.length, jobs.length, others.length], [1, 1, 7])
  assert.equal(new Set([...own, ...jobs, ...others]).size, 9)
})

test('anonymous readers are counted by network', () => {
  const keyOf = (address: string) => limitKeyOf(anonymousFrom(address, false))
  assert.equal(keyOf('2001:db8:1:2:3::4'), keyOf('2001:db8:1:2:5::6'))
  assert.notEqual(keyOf('2001:db8:1:2::1'), keyOf('2001:db8:1:3::1'))
  assert.notEqual(keyOf('192.0.2.1'), keyOf('192.0.2.2'))
})
