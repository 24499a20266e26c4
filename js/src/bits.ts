/** A layer's bits: the pieces that a file has of them. What the file leaves out is zero, and takes no memory. */

const ONES = Uint8Array.from({ length: 256 }, (_, byte) => [...byte.toString(2)].filter((bit) => bit === "1").length);
const NOTHING = new Uint8Array(0);

export class Bits {
  private readonly starts: number[] = [];
  private readonly pieces: Uint8Array[] = [];
  /** Set bits. */
  ones = 0;
  /** Bytes of all pieces. */
  bytes = 0;
  // The piece, or the gap between two, that was read last. Mostly it is the next one, too.
  private piece: Uint8Array = NOTHING;
  private begin = 0;
  private end = 0;

  /** Appends a piece. It begins where the last one ends, or later. */
  append(start: number, piece: Uint8Array): void {
    this.starts.push(start);
    this.pieces.push(piece);
    let ones = 0;
    for (let at = 0; at < piece.length; at += 1) ones += ONES[piece[at]];
    this.ones += ones;
    this.bytes += piece.length;
    this.end = 0;
  }

  /** The byte at an offset. */
  byte(offset: number): number {
    if (offset < this.begin || offset >= this.end) this.seek(offset);
    const at = offset - this.begin;
    return at < this.piece.length ? this.piece[at] : 0;
  }

  private seek(offset: number): void {
    let low = 0;
    let high = this.starts.length;
    while (low < high) {
      const between = (low + high) >>> 1;
      if (this.starts[between] <= offset) low = between + 1;
      else high = between;
    }
    this.begin = low > 0 ? this.starts[low - 1] : 0;
    this.piece = low > 0 ? this.pieces[low - 1] : NOTHING;
    this.end = low < this.starts.length ? this.starts[low] : Infinity;
  }
}
