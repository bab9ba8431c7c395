/** Options of a test that only `npm run test:all` runs, since what it finds is found by a quicker test, too, most of the time. */
export const exhaustive = { tags: ['exhaustive'] }
