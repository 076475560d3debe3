#include "reports/values/estimate_words.h"

#include <fmt/format.h>

#include "profiler/base/hardware.h"

namespace mptune::reports {

std::vector<std::string> estimate_assumptions(const std::string& hardware) {
  if (hardware.empty()) return {};
  return {fmt::format(
              "costs on {} that were estimated, not measured: operations and bytes of the model's operators over {:.2f} and {:.2f} of the "
              "rates of the data sheet, and {:.1f} us a kernel (docs/estimates.md says how far off that is)",
              hardware, kReachedFlops, kReachedBandwidth, kKernelSeconds * 1e6),
          "memory of the tensors that autograd saves and of those that operators make, none that libraries and the allocator keep",
          "no time of the host between kernels"};
}

}  // namespace mptune::reports
