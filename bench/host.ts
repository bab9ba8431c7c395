/** A server of Git repositories over HTTP, of those that are compared. */
export type Host = {
  /** Makes an empty repository; the address of it, with what lets the client in. */
  create: (name: string) => Promise<string>
  remove: (name: string) => Promise<unknown>
}
