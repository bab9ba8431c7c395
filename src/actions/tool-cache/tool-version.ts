import semver from 'semver'
import type { SetupTool } from '../workflow-parser/setup-actions.ts'

/**
 * Translates the version of a tool, as it prints it or as the folder in a tool cache is called, into a semantic
 * version; undefined for anything else.
 */
export function toSemanticVersion(tool: SetupTool, text: string): string | undefined {
  if (text.length > 100) return undefined
  return tool === 'java' ? toJavaVersion(text) : toUsualVersion(text)
}

// Go has no patch in `1.21rc1`, and Python no hyphen in `3.13.0rc2`.
function toUsualVersion(text: string): string | undefined {
  const [whole, major, minor, patch = '0'] = /^v?(\d+)\.(\d+)(?:\.(\d+))?/.exec(text) ?? []
  if (whole === undefined) return undefined
  const early = text
    .slice(whole.length)
    .replace(/\+$/, '')
    .replace(/^-?a(?=\d)/, '-alpha')
    .replace(/^-?b(?=\d)/, '-beta')
    .replace(/^-?(alpha|beta|rc)\.?(?=\d)/, '-$1.')
  return semver.parse(`${major}.${minor}.${patch}${early}`, { loose: true })?.version
}

// `17.0.9-9` and `17.0.9+9`, `1.8.0_392`, `17.0.8.1+1`, `21-ea`, `22.0.0-ea.35`.
function toJavaVersion(text: string): string | undefined {
  const plain = text.replace(/^1\.(?=\d)/, '').replace('_', '.')
  const [, release, early, earlyBuild, build = earlyBuild] =
    /^(\d[\d.]*)(?:(-ea)(?:\.(\d+))?|[-+](\d[\d.]*))?$/.exec(plain) ?? []
  if (release === undefined) return undefined
  const [major, minor = '0', patch = '0', ...more] = release.split('.')
  const rest = [...more, ...(build === undefined ? [] : [build])].join('.')
  const suffix = early === undefined ? rest && `+${rest}` : `-ea${rest && `.${rest}`}`
  const version = `${major}.${minor}.${patch}${suffix}`
  return semver.valid(version) === null ? undefined : version
}

/** Sorts versions, the newest first. */
export function newestFirst(versions: readonly string[]): string[] {
  return [...versions].sort((one, other) => semver.compareBuild(other, one))
}
