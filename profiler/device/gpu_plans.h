#pragma once

#include <cstdint>
#include <vector>

namespace mptune {

/// What a driver says of the multiprocessors of a GPU that can be divided.
struct SmResource {
  int count = 0;
  int least = 1;     ///< in one part
  int multiple = 1;  ///< a part has a multiple of so many
};

/// Multiprocessors in each of `parts` equal parts: as many as fit, the rest is left over. 0: the GPU can't be divided so.
[[nodiscard]] int sms_per_part(const SmResource& all, int parts);

/// A piece of a copy through host memory, and which of the lane's buffers it passes through.
struct StagingPiece {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  int buffer = 0;
  bool operator==(const StagingPiece&) const = default;
};

/// The pieces of a copy in their order, none larger than a buffer, the buffers in turn: while one is filled the one before is emptied.
/// Equal pieces but for the last. Requires: buffer_bytes and buffers positive.
[[nodiscard]] std::vector<StagingPiece> staging_pieces(std::int64_t bytes, std::int64_t buffer_bytes, int buffers);

}  // namespace mptune
