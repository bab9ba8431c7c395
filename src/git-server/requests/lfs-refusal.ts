/** What users of Git LFS read, over either transport. */
export const lfsRefusal =
  'Git LFS is not supported by this server. Commit such files without LFS, or keep their objects ' +
  'on another LFS server, which lfs.url in .lfsconfig names.'
