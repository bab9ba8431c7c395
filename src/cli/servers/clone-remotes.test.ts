import assert from 'node:assert/strict'
import { test } from 'node:test'
import { repositoryOf } from './clone-remotes.ts'

test('a repository is named by each of its addresses, of Git and of its page', () => {
  for (const place of ['', 'repos/', 'r/']) {
    for (const end of ['', '.git', '/', '.git/']) {
      const address = `https://git.example:8443/svc/${place}site.x${end}`
      assert.equal(repositoryOf(address, 'https://git.example:8443/svc'), 'site.x', address)
    }
  }
  for (const address of [
    'ssh://svc@git.example:2222/site.git',
    'ssh://git.example/site',
    'svc@git.example:site.git',
    'svc@git.example:/site',
    'git.example:site.git',
  ]) {
    assert.equal(repositoryOf(address, 'https://git.example:8443/svc'), 'site', address)
  }
})

test('a repository in a namespace is named by both parts', () => {
  for (const address of [
    'https://git.example:8443/svc/repos/acme/site.git',
    'https://git.example:8443/svc/r/acme/site',
    'https://git.example:8443/svc/acme/site.git',
    'svc@git.example:acme/site.git',
  ])
    assert.equal(repositoryOf(address, 'https://git.example:8443/svc'), 'acme/site', address)
})

test('an address of another place names none', () => {
  for (const address of [
    'https://git.example/svc/repos/site.git',
    'https://other.example:8443/svc/repos/site.git',
    'https://git.example:8443/repos/site.git',
    'https://git.example:8443/svc/',
    'https://git.example:8443/svc/r/site/tree/main',
    'svc@other.example:site.git',
    'file:///site.git',
    '/srv/site.git',
    'site',
  ]) {
    assert.equal(repositoryOf(address, 'https://git.example:8443/svc'), undefined, address)
  }
})
