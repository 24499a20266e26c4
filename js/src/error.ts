/** Bytes that are no whole filter, or more than the caller allows. The message says what is wrong. */
export class FormatError extends Error {
  override name = "FormatError";
}
