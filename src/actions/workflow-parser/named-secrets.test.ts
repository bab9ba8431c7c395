import assert from 'node:assert/strict'
import { test } from 'node:test'
import { namedSecrets } from './named-secrets.ts'

const cases: [text: string, isNamed: boolean][] = [
  ['run: deploy "$TOKEN"', true],
  ['run: deploy "${TOKEN:-}"', true],
  ['TOKEN', true],
  ['# TOKEN', true],
  ['secrets: [A, TOKEN]', true],
  ['echo ${{ secrets.TOKEN }}', true],
  ['echo ${{ Secrets.token }}', true],
  ["echo ${{ secrets['Token'] }}", true],
  ['é-TOKEN-é', true],
  ['run: make token', false],
  ['$MY_TOKEN $TOKEN_2 $TOKENS $2TOKEN', false],
  ["${{ secrets[format('TO{0}', 'KEN')] }}", false],
  ['', false],
]

for (const [text, isNamed] of cases) {
  test(`${JSON.stringify(text)} names ${isNamed ? 'the secret' : 'no secret'}`, () => {
    assert.deepEqual(namedSecrets(text, ['TOKEN']), isNamed ? ['TOKEN'] : [])
  })
}
