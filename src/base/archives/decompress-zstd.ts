import { constants, createZstdDecompress, type ZstdDecompress } from 'node:zlib'

// 8 MiB: what an archive may ask of memory. The default levels of zstd ask for less.
const windowLogMax = 23

/** A decompressor for archives, which may be hostile: it fails for one that needs much memory. */
export function decompressZstd(): ZstdDecompress {
  return createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: windowLogMax } })
}
