#include "reports/values/estimate_words.h"

namespace mptune::reports {

std::vector<std::string> estimate_assumptions(const std::string& hardware) {
  if (hardware.empty()) return {};
  return {"costs on " + hardware +
              " that were estimated, not measured: operations and bytes of the model's operators over 0.70 and 0.75 of "
              "the rates of the data sheet, and 2.7 us a kernel (docs/estimates.md says how far off that is)",
          "memory of the tensors that autograd saves and of those that operators make, none that libraries and the allocator keep",
          "no time of the host between kernels"};
}

}  // namespace mptune::reports
