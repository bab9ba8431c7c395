/** The message for Git LFS clients, over either transport. */
export const lfsRefusal =
  'Git LFS is not supported by this server. Commit the files without LFS, or set lfs.url in .lfsconfig ' +
  'to another LFS server.'
