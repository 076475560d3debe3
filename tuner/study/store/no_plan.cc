#include "tuner/study/store/no_plan.h"

#include <algorithm>
#include <array>

#include "profiler/base/index.h"
#include "profiler/base/units.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {
namespace {

constexpr std::array kWhyNames = {"needs_devices", "needs_several_cores", "one_layer",         "few_samples",
                                  "over_cap",      "none_within_caps",    "other_plans_asked", "none_found"};
static_assert(kWhyNames.size() == as_index(NoPlan::Why::none_found) + 1);

}  // namespace

bool too_large(const NoPlan& reason) {
  return reason.why == NoPlan::Why::over_cap || reason.why == NoPlan::Why::none_within_caps;
}

const char* to_string(NoPlan::Why why) {
  return kWhyNames[as_index(why)];
}

NoPlan::Why why_from(const std::string& text) {
  const auto found = std::ranges::find(kWhyNames, text);
  return found == kWhyNames.end() ? NoPlan::Why::none_found : static_cast<NoPlan::Why>(found - kWhyNames.begin());
}

std::string text_of(const NoPlan& reason) {
  if (!reason.words.empty()) return reason.words;
  switch (reason.why) {
    case NoPlan::Why::needs_devices:
      return "needs at least " + std::to_string(reason.needed) + " devices; " + std::to_string(reason.available) + " available";
    case NoPlan::Why::needs_several_cores:
      return "only several CPU cores can be one device";
    case NoPlan::Why::one_layer:
      return "the model has one layer";
    case NoPlan::Why::few_samples:
      return "the batch has fewer samples than there are devices";
    case NoPlan::Why::over_cap:
      return "does not fit: needs " + format_bytes(reason.needed_bytes) + " on " + reason.device + ", the cap is " +
             format_bytes(reason.cap_bytes);
    case NoPlan::Why::none_within_caps:
      return "does not fit: no plan of this kind was found within the caps";
    case NoPlan::Why::other_plans_asked:
      return "the options ask for other plans";
    case NoPlan::Why::none_found:
      break;
  }
  return "no plan of this kind was found";
}

}  // namespace mptune::tuner
