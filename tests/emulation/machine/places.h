#pragma once

/// Places of a program that call waits and records: for tests that leave one out and look whether anything notices. A place is the
/// function's kind and three return addresses, as "stream waits for event: libmptune_cuda.so+0x1a2b libmptune_cuda.so+0x3c4d
/// mptune-worker+0x5e6f".
///
///     EMULATED_SITES=FILE  appends each place once per process
///     EMULATED_DROP=PLACE  leaves the calls of that place out: they succeed and do nothing

namespace emulation {

/// True if the call in which this thread is must be left out.
[[nodiscard]] bool is_left_out(const char* kind);

}  // namespace emulation
