/** A Git server in a comparison. */
export type Host = {
  /** Creates an empty repository, and returns its address with credentials. */
  create: (name: string) => Promise<string>
  /** Creates a repository with all refs of a local one, and returns its address. */
  copy: (name: string, source: string) => Promise<string>
  remove: (name: string) => Promise<unknown>
}

/** The compared servers: svc, its peer with the durability and checks of svc, and the peer with git's defaults. */
export type Hosts = { svc: Host; peer: Host; defaults: Host }
