/** Waits for something, but no longer than a time; then it rejects. */
export async function within<T>(milliseconds: number, wanted: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const late = () => reject(new Error(`there was no answer within ${milliseconds / 1000} s`))
  const timer = setTimeout(late, milliseconds)
  try {
    return await Promise.race([wanted, promise])
  } finally {
    clearTimeout(timer)
  }
}
