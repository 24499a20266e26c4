/** A filter's chunks, and the bits of a layer in them. What a file leaves out is zero, and takes no memory. */

/** A filter's header, or a piece of its bits, with the iterator that BF.LOADCHUNK takes for it. */
export type Chunk = [iterator: number, data: Uint8Array];

const NOTHING = new Uint8Array(0);

/** Chunks in their order. A file may have millions of some bytes, so none is an object: an object takes a hundred bytes. */
export class Chunks {
  /** The iterators, each of which is 1 + the offset of the chunk's end. */
  readonly iterators: number[] = [];
  readonly lengths: number[] = [];
  /** Where each begins in its buffer, of which it has the number. */
  readonly places: number[] = [];
  private readonly numbers: number[] = [];
  private readonly buffers: Uint8Array[] = [];

  get count(): number {
    return this.iterators.length;
  }

  append(iterator: number, data: Uint8Array): void {
    if (this.buffers.at(-1)?.buffer !== data.buffer) this.buffers.push(new Uint8Array(data.buffer));
    this.iterators.push(iterator);
    this.lengths.push(data.length);
    this.places.push(data.byteOffset);
    this.numbers.push(this.buffers.length - 1);
  }

  /** The buffer that a chunk is in. */
  buffer(index: number): Uint8Array {
    return this.buffers[this.numbers[index]];
  }

  list(): Chunk[] {
    return this.iterators.map((iterator, index) => {
      const place = this.places[index];
      return [iterator, this.buffer(index).subarray(place, place + this.lengths[index])];
    });
  }
}

/** The bits of a layer. */
export class Bits {
  // The chunk, or the gap between two, that was read last. Mostly it is the next one, too.
  private buffer: Uint8Array = NOTHING;
  private place = 0;
  private length = 0;
  private begin = 0;
  private end = 0;

  /** The layer's chunks are those from `first` on and before `behind`. `base`: 1 + the offset of its bits in those of all. */
  constructor(
    private readonly chunks: Chunks,
    private readonly first: number,
    private readonly behind: number,
    private readonly base: number,
  ) {
    this.open(first);
  }

  /** The byte at an offset. */
  byte(offset: number): number {
    if (offset < this.begin || offset >= this.end) this.seek(offset);
    const at = offset - this.begin;
    return at < this.length ? this.buffer[this.place + at] : 0;
  }

  private start(index: number): number {
    return this.chunks.iterators[index] - this.chunks.lengths[index] - this.base;
  }

  private seek(offset: number): void {
    let low = this.first;
    let high = this.behind;
    while (low < high) {
      const between = (low + high) >>> 1;
      if (this.start(between) <= offset) low = between + 1;
      else high = between;
    }
    if (low > this.first) {
      this.open(low - 1);
    } else {
      this.length = this.begin = 0;
      this.end = this.start(low);
    }
  }

  private open(index: number): void {
    this.buffer = this.chunks.buffer(index);
    this.place = this.chunks.places[index];
    this.length = this.chunks.lengths[index];
    this.begin = this.start(index);
    this.end = index + 1 < this.behind ? this.start(index + 1) : Infinity;
  }
}
