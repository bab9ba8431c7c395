/** A value that JSON can represent. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json }
