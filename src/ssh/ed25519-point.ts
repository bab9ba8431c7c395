// The curve of RFC 8032, section 5.1: -x² + y² = 1 + dx²y², over the integers modulo this prime.
const prime = 2n ** 255n - 19n
const d = modulo(-121665n * inverse(121666n))

/**
 * Whether 32 bytes are a valid public key: a point on the curve, in its canonical encoding, and not
 * of small order, because with such a key forged signatures verify. OpenSSL checks none of this.
 */
export function isEd25519Point(bytes: Buffer): boolean {
  if (bytes.length !== 32) return false
  const number = BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)
  const y = number & (2n ** 255n - 1n)
  return y < prime && isSquare(xSquared(y)) && !isOfSmallOrder(y)
}

function xSquared(y: bigint): bigint {
  return modulo((y * y - 1n) * inverse(d * y * y + 1n))
}

// The orders below the large one are 1, 2, 4 and 8, so doubling three times leads to the neutral point.
function isOfSmallOrder(y: bigint): boolean {
  let double = y
  for (let times = 0; times < 3; times++) {
    const xx = xSquared(double)
    const yy = double * double
    double = modulo((yy + xx) * inverse(2n + xx - yy))
  }
  return double === 1n
}

function isSquare(value: bigint): boolean {
  return value === 0n || power(value, (prime - 1n) / 2n) === 1n
}

function inverse(value: bigint): bigint {
  return power(value, prime - 2n)
}

function power(base: bigint, exponent: bigint): bigint {
  let [result, square] = [1n, modulo(base)]
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * square) % prime
    square = (square * square) % prime
  }
  return result
}

function modulo(value: bigint): bigint {
  const rest = value % prime
  return rest < 0n ? rest + prime : rest
}
