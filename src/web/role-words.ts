/** What each role may do, for choices in forms. */
export const roleWords: Record<string, string> = {
  read: 'Read: see and fetch',
  write: 'Write: also push and run',
  maintain: 'Maintain: also protections and webhooks',
  admin: 'Admin: everything that the owner can do',
}
