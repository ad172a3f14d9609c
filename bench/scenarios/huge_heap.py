"""The service of `large-heap` with two million records: six million objects that the collector tracks."""

import large_heap

if __name__ == "__main__":
    large_heap.main(records=2_000_000)
