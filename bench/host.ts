/** A server of Git repositories, of those that are compared. */
export type Host = {
  /** Makes an empty repository; its address, which lets the client of the bench in. */
  create: (name: string) => Promise<string>
  /** Makes a repository with all refs of one that is a folder; its address. */
  copy: (name: string, source: string) => Promise<string>
  remove: (name: string) => Promise<unknown>
}

/** What is compared: svc, its peer with the durability and the checks of svc, and the peer as git is by default. */
export type Hosts = { svc: Host; peer: Host; defaults: Host }
