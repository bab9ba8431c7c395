/** An archive that is damaged, or has what cannot be converted or unpacked; the message is a sentence. */
export class ArchiveFormatError extends Error {
  override readonly name = 'ArchiveFormatError'
}
