import { generateKeyPairSync, randomBytes, randomInt } from 'node:crypto'
import { checksum, newTokenString } from '#base/token-string.ts'
import { isPlaceholder } from '#git-server/leak-guard/credential.ts'

const digits = '0123456789'
const upper = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const lower = upper.toLowerCase()
const letters = upper + lower
const base62 = digits + letters

function pick(alphabet: string, length: number): string {
  return Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join('')
}

function withChecksum(prefix: string): string {
  const random = pick(base62, 30)
  return prefix + random + checksum(random)
}

/** A secret key of AWS has letters of both cases and digits. */
export function newAwsKey(): { id: string; secret: string } {
  const secret = `a1B${pick(`${base62}/+`, 37)}`
  return { id: `AKIA${pick(`${upper}234567`, 16)}`, secret }
}

/** A private key in PEM. */
export function newPem(passphrase?: string): string {
  const format = { type: 'pkcs8', format: 'pem' } as const
  const encrypted = passphrase === undefined ? {} : { cipher: 'aes-256-cbc', passphrase }
  const { privateKey } = generateKeyPairSync('ec', {
    namedCurve: 'prime256v1',
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { ...format, ...encrypted },
  })
  return privateKey
}

/** A private key of PuTTY, in form. */
export function newPuttyKey(encryption = 'none'): string {
  const line = () => randomBytes(48).toString('base64')
  return [
    `PuTTY-User-Key-${'File'}-3: ssh-ed25519`,
    `Encryption: ${encryption}`,
    'Comment: ada',
    'Public-Lines: 1',
    line(),
    'Private-Lines: 2',
    line(),
    line(),
    `Private-MAC: ${randomBytes(32).toString('hex')}`,
  ].join('\r\n')
}

/** A random credential in the form of each kind, by its kind. They are no one's, and are made when they are needed. */
export const newCredentials: Record<string, () => string> = withoutPlaceholders({
  'svc token': newTokenString,
  'svc run token': () => `svcrun${pick('01', 1) === '0' ? '' : 'ner'}_${pick(`${base62}_-`, 32)}`,
  'private key': newPem,
  'encrypted private key': () => newPem('secret'),
  'PuTTY private key': newPuttyKey,
  'encrypted PuTTY private key': () => newPuttyKey('aes256-cbc'),
  'GitHub token': () => withChecksum('ghp_'),
  'GitHub fine-grained token': () => `github_pat_${pick(base62, 22)}_${pick(base62, 59)}`,
  'AWS access key': () => Object.values(newAwsKey()).join('\n'),
  'Google API key': () => `AIza${pick(`${base62}-_`, 34)}x`,
  'Google service account key': () =>
    JSON.stringify({ type: 'service_account', private_key: newPem() }, null, 2),
  'Slack token': () => `xoxb-${pick(digits, 12)}-${pick(digits, 12)}-${pick(base62, 24)}`,
  'Slack app token': () =>
    `xapp-1-A${pick(upper, 10)}-${pick(digits, 13)}-${randomBytes(32).toString('hex')}`,
  'Slack webhook URL': () =>
    `https://hooks.slack.com/services/T${pick(upper, 8)}/B${pick(upper, 10)}/${pick(base62, 24)}`,
  'Stripe live key': () => `sk_live_${pick(base62, 24)}`,
  'npm token': () => withChecksum('npm_'),
  'PyPI token': () => `pypi-${'AgEIcHlwaS5vcmc'}${pick(`${base62}-_`, 150)}`,
  'Anthropic API key': () => `sk-ant-${'api03'}-${pick(`${base62}-_`, 93)}AA`,
  'OpenAI API key': () => `sk-proj-${pick(base62, 74)}T3Blbk${'FJ'}${pick(base62, 74)}`,
  'GitLab token': () => `glpat-${pick(`${base62}-_`, 20)}`,
  'DigitalOcean token': () => `dop_v1_${randomBytes(32).toString('hex')}`,
  'SendGrid API key': () => `SG.${pick(`${base62}-_`, 22)}.${pick(`${base62}-_`, 43)}`,
  'Azure storage account key': () =>
    `DefaultEndpointsProtocol=https;AccountName=a;AccountKey=${randomBytes(64).toString('base64')};`,
  'Hugging Face token': () => `hf_${pick(letters, 34)}`,
  'Docker Hub token': () => `dckr_pat_${pick(`${base62}-_`, 27)}`,
  'Shopify token': () => `shpat_${randomBytes(16).toString('hex')}`,
  'HashiCorp Vault token': () => `hvs.${pick(`${base62}-_`, 95)}`,
  'Linear API key': () => `lin_api_${pick(base62, 40)}`,
  'Databricks token': () => `dapi${randomBytes(16).toString('hex')}`,
})

/** Makes each once more when it looks like a placeholder by chance. */
function withoutPlaceholders(makers: Record<string, () => string>): Record<string, () => string> {
  const again = (make: () => string) => () => {
    let made = make()
    for (let tries = 0; tries < 9 && isPlaceholder(made); tries++) made = make()
    return made
  }
  return Object.fromEntries(Object.entries(makers).map(([kind, make]) => [kind, again(make)]))
}
