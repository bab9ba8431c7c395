// The functions of semver that svc uses; the package has no types.
declare module 'semver' {
  type Options = { loose?: boolean; includePrerelease?: boolean }
  type Parsed = { version: string; major: number; minor: number; prerelease: (string | number)[] }
  const semver: {
    parse: (version: string, options?: Options) => Parsed | null
    valid: (version: string, options?: Options) => string | null
    validRange: (range: string, options?: Options) => string | null
    satisfies: (version: string, range: string, options?: Options) => boolean
    compareBuild: (one: string, other: string) => -1 | 0 | 1
  }
  // biome-ignore lint/style/noDefaultExport: the module has one
  export default semver
}
