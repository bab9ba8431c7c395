import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseCodeOwners } from './code-owners.ts'

function parse(file: string) {
  const owners = parseCodeOwners(file)
  assert.ok(owners)
  return owners
}

const text = `# The last rule that matches counts.
*             @ada
*.js          @grace   # in any folder
/build/logs/  @ops @group:oncall
docs/*        docs@example.com @writers
apps/         @apps
/scripts/**/x @deep
/free
/a\\ b/ @spaced
`
const { ownersOf } = parse(text)

test('the last pattern that matches a path says whose it is', () => {
  const expected: Record<string, string[]> = {
    'readme.md': ['ada'],
    'src/a.js': ['grace'],
    'build/logs/today/x.txt': ['ops', 'group:oncall'],
    'old/build/logs/x.txt': ['ada'],
    'docs/start.md': ['docs@example.com', 'writers'],
    'a b/q': ['spaced'],
    'docs/more/start.md': ['ada'],
    'src/apps/x.ts': ['apps'],
    apps: ['ada'],
    'scripts/x': ['deep'],
    'scripts/a/b/x': ['deep'],
    'free/text.js': [],
  }
  for (const [path, owners] of Object.entries(expected))
    assert.deepEqual(ownersOf(path), owners, path)
})

test('a file of odd lines is read without complaint', () => {
  const odd = parse('\n@ada\n*\n[a-z] @x\n***** @y\n/ @z\n')
  assert.deepEqual(odd.ownersOf('a'), ['y'])
  assert.deepEqual(parse('').ownersOf('a'), [])
})

test('what cannot be read whole is not read in part', () => {
  assert.equal(parseCodeOwners('* @a\n'.repeat(5001)), undefined)
  assert.deepEqual(parse('/sec/ @acme/security').ownersOf('sec/s'), ['acme/security'])
})
