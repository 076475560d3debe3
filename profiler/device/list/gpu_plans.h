#pragma once

#include <cstdint>
#include <vector>

namespace mptune::profiler {

/// Multiprocessors of a GPU and how the driver can divide them.
struct SmResource {
  int count = 0;
  int least = 1;     ///< smallest part
  int multiple = 1;  ///< the size of a part is a multiple of this
};

/// Returns the multiprocessors in each of `parts` equal parts, as many as possible; some may be left over. 0: it can't be divided into
/// `parts`.
[[nodiscard]] int sms_per_part(const SmResource& all, int parts);

/// A piece of a copy through host memory, with the index of the buffer that it uses.
struct StagingPiece {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  int buffer = 0;
  bool operator==(const StagingPiece&) const = default;
};

/// Divides a copy into pieces that use the buffers in turn, so that one buffer is filled while the one before is emptied.
/// All pieces but the last have the same size. Requires: buffer_bytes and buffers positive.
[[nodiscard]] std::vector<StagingPiece> staging_pieces(std::int64_t bytes, std::int64_t buffer_bytes, int buffers);

}  // namespace mptune::profiler
