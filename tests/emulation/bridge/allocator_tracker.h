#pragma once

namespace emulation {

/// From the first call on, writes NaN over each new block of LibTorch's allocator, on the stream that it is for. That finds use of memory
/// without numbers, and blocks that another stream still uses for want of record_stream. Not at the end of a block: what was freed may be
/// read by streams that its next user waits for. Requires: the GPUs are initialised, so not while the library is loaded.
void track_allocations();

}  // namespace emulation
