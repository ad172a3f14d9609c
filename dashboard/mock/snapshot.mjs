// A made-up snapshot of PyTorch's allocator, as the hub tells it.

const MIB = 1 << 20;
const stack = ["/srv/shop/train.py:63 in step", "/srv/shop/train.py:80 in <i>main</i>"];

/** What the hub answers for a file; `null` where it is no pickle. */
export function told(bytes) {
  if (bytes[0] !== 0x80) return null;
  const sizes = { reserved_bytes: 64 * MIB, allocated_bytes: 40 * MIB, active_bytes: 42 * MIB, inactive_bytes: 22 * MIB, cached_bytes: 0 };
  const streams = [{ stream: 0, segments: 2, ...sizes }];
  const device = { device: 0, segments: 2, blocks: 2, requested_bytes: 39 * MIB, pending_bytes: 2 * MIB, free_blocks: 1, largest_free_bytes: 22 * MIB, fragmentation: 0, expandable_segments: 0, private_bytes: 0, streams, ...sizes };
  const block = (offset, size, used, number) => ({ offset: offset * MIB, bytes: size * MIB, used_bytes: used * MIB, pending_bytes: 0, blocks: 1, stack: number });
  const segments = [
    { device: 0, stream: 0, address: "0x7f0000000000", bytes: 44 * MIB, blocks: [block(0, 20, 20, 0), block(20, 24, 0, null)] },
    { device: 0, stream: 0, address: "0x7f1000000000", bytes: 20 * MIB, blocks: [block(0, 20, 20, 0)] },
  ];
  const course = [10, 20, 30, 43, 40].map((size, index) => ({ event: index + 1, at_s: index / 10, allocated_bytes: size * MIB, reserved_bytes: 64 * MIB }));
  const errors = [{ event: 5, at_s: 0.4, asked_bytes: 100 * MIB, device_free_bytes: MIB, allocated_bytes: 40 * MIB, site: stack[0], frames: stack }];
  const site = { bytes: 40 * MIB, blocks: 2, site: stack[0], frames: stack };
  const largest = [{ device: 0, stream: 0, address: "0x7f0000000000", bytes: 20 * MIB, requested_bytes: 20 * MIB, pending: false, site: stack[0], frames: stack }];
  const history = { device: 0, events: 5, seconds: 0.4, allocs: 4, frees: 1, segment_allocs: 0, segment_frees: 0, ooms: 1, start_bytes: 0, end_bytes: 40 * MIB, peak_bytes: 43 * MIB, peak_event: 4, anchored: true, course, errors, at_peak: [site], at_end: [site] };
  return { file_bytes: bytes.length, protocol: 4, complete: true, remarks: [], settings: {}, devices: [device], sites: [site], largest, history: [history], map: { segments, left_out: 0, left_out_bytes: 0, stacks: [stack] } };
}
