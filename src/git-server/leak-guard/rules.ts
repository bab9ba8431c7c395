import { createHash } from 'node:crypto'
import { checksum, isTokenString } from '#base/token-string.ts'
import type { FoundCredential, LeakRule, ScannedText } from './credential.ts'
import { isPlaceholder } from './credential.ts'
import { findPrivateKey, findPuttyKey } from './private-keys.ts'

type Form = {
  /** Sticky: it matches at an offset only. */
  pattern: RegExp
  /** The characters of such a credential: none of them is beside it. */
  alphabet?: RegExp
  /** By default, anything but a placeholder. */
  accepts?: (credential: string) => boolean
}

const word = /[0-9A-Za-z_]/
const wordOrDash = /[\w-]/

/** Every kind of credential that a push may not contain. */
export const leakRules: readonly LeakRule[] = [
  rule('svc token', ['svc_'], { pattern: /svc_[0-9A-Za-z]{36}/y, accepts: isTokenString }),
  rule('svc run token', ['svcrun_', 'svcrunner_'], {
    pattern: /svcrun(?:ner)?_[\w-]{32}/y,
    alphabet: wordOrDash,
  }),
  {
    kind: 'private key',
    prefixes: ['-----BEGIN '],
    find: ({ text }, at) => findPrivateKey(text, at),
  },
  {
    kind: 'PuTTY private key',
    prefixes: ['PuTTY-User-Key-File-'],
    find: ({ text }, at) => findPuttyKey(text, at),
  },
  rule('GitHub token', ['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'], {
    pattern: /gh[pousr]_[0-9A-Za-z]{36}/y,
    accepts: endsInChecksum,
  }),
  rule('GitHub fine-grained token', ['github_pat_'], {
    pattern: /github_pat_[0-9A-Za-z]{22}_[0-9A-Za-z]{59}/y,
    alphabet: word,
  }),
  { kind: 'AWS access key', prefixes: ['AKIA', 'ASIA'], find: findAwsKey },
  rule('Google API key', ['AIza'], { pattern: /AIza[\w-]{35}/y, alphabet: wordOrDash }),
  rule('Slack token', ['xoxb-', 'xoxp-', 'xoxa-', 'xoxr-', 'xoxs-', 'xoxe-'], {
    pattern: /xox[bpares]-\d{1,20}-[\w-]{16,250}/y,
    alphabet: wordOrDash,
  }),
  rule('Slack app token', ['xapp-'], {
    pattern: /xapp-\d-A[0-9A-Z]{6,20}-\d{6,20}-[0-9a-f]{32,128}/y,
    alphabet: wordOrDash,
  }),
  rule('Slack webhook URL', ['hooks.slack.com/'], {
    pattern:
      /hooks\.slack\.com\/(?:services|workflows|triggers)\/[A-Z][0-9A-Z]{6,20}\/[0-9A-Z]{6,24}\/[0-9A-Za-z/]{20,60}/y,
  }),
  rule('Stripe live key', ['sk_live_', 'rk_live_'], {
    pattern: /[sr]k_live_[0-9A-Za-z]{16,250}/y,
    alphabet: word,
  }),
  rule('npm token', ['npm_'], { pattern: /npm_[0-9A-Za-z]{36}/y, accepts: endsInChecksum }),
  rule('PyPI token', ['pypi-AgE'], {
    pattern: /pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[\w-]{85,1000}/y,
    alphabet: wordOrDash,
  }),
  rule('Anthropic API key', ['sk-ant-'], {
    pattern: /sk-ant-[a-z]{3,10}\d\d-[\w-]{80,200}/y,
    alphabet: wordOrDash,
  }),
  rule('OpenAI API key', ['sk-'], {
    pattern: /sk-[\w-]{40,250}/y,
    alphabet: wordOrDash,
    // In the middle of each key: "OpenAI" in base64.
    accepts: (key) => key.includes('T3BlbkFJ') && !isPlaceholder(key),
  }),
  rule('GitLab token', ['glpat-', 'gldt-', 'glrt-', 'glptt-', 'glcbt-', 'glsoat-'], {
    pattern: /gl(?:pat|dt|rt|ptt|cbt|soat)-[\w-]{20,300}(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?/y,
    alphabet: wordOrDash,
  }),
  rule('DigitalOcean token', ['dop_v1_', 'doo_v1_', 'dor_v1_'], {
    pattern: /do[opr]_v1_[0-9a-f]{64}/y,
    alphabet: word,
  }),
  rule('SendGrid API key', ['SG.'], {
    pattern: /SG\.[\w-]{22}\.[\w-]{43}/y,
    alphabet: /[\w.-]/,
  }),
  rule('Azure storage account key', ['AccountKey='], {
    pattern: /AccountKey=[0-9A-Za-z+/]{86}==/y,
    accepts: (text) => !isEmulatorKey(text) && !isPlaceholder(text),
  }),
  rule('Hugging Face token', ['hf_'], { pattern: /hf_[A-Za-z]{34}/y, alphabet: word }),
  rule('Docker Hub token', ['dckr_pat_'], {
    pattern: /dckr_pat_[\w-]{27}/y,
    alphabet: wordOrDash,
  }),
  rule('Shopify token', ['shpat_', 'shpca_', 'shppa_', 'shpss_'], {
    pattern: /shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}/y,
    alphabet: word,
  }),
  rule('HashiCorp Vault token', ['hvs.', 'hvb.'], {
    pattern: /hv[sb]\.[\w-]{90,300}/y,
    alphabet: /[\w.-]/,
  }),
  rule('Linear API key', ['lin_api_'], { pattern: /lin_api_[0-9A-Za-z]{40}/y, alphabet: word }),
  rule('Databricks token', ['dapi'], { pattern: /dapi[0-9a-f]{32}/y, alphabet: word }),
]

function rule(
  kind: string,
  prefixes: readonly string[],
  { pattern, alphabet, accepts = isNoPlaceholder }: Form,
): LeakRule {
  return {
    kind,
    prefixes,
    find({ text }, at) {
      if (alphabet?.test(text[at - 1] ?? '')) return undefined
      pattern.lastIndex = at
      const [credential] = pattern.exec(text) ?? []
      if (credential === undefined) return undefined
      if (alphabet?.test(text[at + credential.length] ?? '')) return undefined
      return accepts(credential) ? { secret: credential } : undefined
    },
  }
}

function isNoPlaceholder(credential: string): boolean {
  return !isPlaceholder(credential)
}

/** The format of GitHub: https://github.blog/2021-04-05-behind-githubs-new-authentication-token-formats/ */
function endsInChecksum(token: string): boolean {
  const random = token.slice(4, -6)
  return token.endsWith(checksum(random))
}

const awsIdPattern = /A[KS]IA[A-Z2-7]{16}/y
const awsBeside = 600

/** The id of a key is no secret: one is found only beside a secret key, which has no prefix. */
function findAwsKey(
  { text, secretKeyBetween }: ScannedText,
  at: number,
): FoundCredential | undefined {
  awsIdPattern.lastIndex = at
  const [id] = awsIdPattern.exec(text) ?? []
  if (id === undefined || id.endsWith('EXAMPLE')) return undefined
  if (word.test(text[at - 1] ?? '') || word.test(text[at + id.length] ?? '')) return undefined
  const secret = secretKeyBetween(at - awsBeside, at + awsBeside)
  return secret === undefined ? undefined : { secret }
}

const secretKeyLength = 40
const secretKeyCharacter = /[0-9A-Za-z+/]/

/** Finds texts that have the form of a secret key of AWS. No part of the text is read twice. */
export function createSecretKeyFinder(text: string): ScannedText['secretKeyBetween'] {
  const runs = /[0-9A-Za-z+/]+/g
  const keys: { at: number; value: string }[] = []
  let reached = 0

  const isInRun = (at: number) => secretKeyCharacter.test(text[at] ?? '')

  function readUpTo(last: number): void {
    while (reached <= last) {
      const { 0: value = '', index: at = 0 } = runs.exec(text) ?? {}
      reached = value === '' ? Number.POSITIVE_INFINITY : runs.lastIndex
      if (isSecretKey(value) && text[reached] !== '_') keys.push({ at, value })
    }
  }

  return (first, last) => {
    if (first > reached) {
      runs.lastIndex = first
      // The rest of a run that begins before.
      if (isInRun(first - 1) && isInRun(first)) runs.exec(text)
      reached = Math.max(first, runs.lastIndex)
    }
    readUpTo(last)
    while (keys[0] && keys[0].at < first) keys.shift()
    const [key] = keys
    return key && key.at <= last ? key.value : undefined
  }
}

function isSecretKey(value: string): boolean {
  if (value.length !== secretKeyLength) return false
  const isMixed = /[a-z]/.test(value) && /[A-Z]/.test(value) && /\d/.test(value)
  return isMixed && !isPlaceholder(value)
}

// SHA-256 of the key of the storage emulator, which its documentation publishes.
const emulatorKeyHash = '900e6c2bf8ce6c14dbfdcbd6d7402e8fadd53c5464b0ffae66dce9ac06c0e061'

function isEmulatorKey(text: string): boolean {
  return createHash('sha256').update(text).digest('hex') === emulatorKeyHash
}
