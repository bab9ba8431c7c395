import type { SetupRequest } from './tool-requests.ts'

/** The lines of .npmrc for `registry-url` of actions/setup-node; undefined without it. */
export function npmSettings({ inputs }: SetupRequest): string[] | undefined {
  const text = inputs['registry-url']?.trim() ?? ''
  if (text === '') return undefined
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw new Error('registry-url is not an http or https address.')
  }
  const registry = url.href.endsWith('/') ? url.href : `${url.href}/`
  const scope = inputs.scope ? `@${inputs.scope.replace(/^@/, '').toLowerCase()}:` : ''
  const authority = registry.replace(/^\w+:/, '')
  return [
    // npm replaces the variable.
    `${authority}:_authToken=\${NODE_AUTH_TOKEN}`,
    `${scope}registry=${registry}`,
    ...(inputs['always-auth'] ? [`always-auth=${inputs['always-auth']}`] : []),
  ]
}
