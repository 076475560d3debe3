#include "profiler/device/list/gpu_plans.h"

#include <algorithm>

namespace mptune::profiler {

int sms_per_part(const SmResource& all, int parts) {
  if (parts < 1 || all.multiple < 1) return 0;
  const int sms = all.count / parts / all.multiple * all.multiple;
  return sms >= std::max(1, all.least) ? sms : 0;
}

std::vector<StagingPiece> staging_pieces(std::int64_t bytes, std::int64_t buffer_bytes, int buffers) {
  std::vector<StagingPiece> pieces;
  for (std::int64_t offset = 0; offset < bytes; offset += buffer_bytes)
    pieces.push_back({offset, std::min(buffer_bytes, bytes - offset), static_cast<int>(pieces.size()) % buffers});
  return pieces;
}

}  // namespace mptune::profiler
