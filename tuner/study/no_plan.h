#pragma once

#include <cstdint>
#include <string>

namespace mptune::tuner {

/// Why the search has no plan of a kind of parallelism.
struct NoPlan {
  enum class Why {
    needs_devices,        ///< `needed` devices; there are `available`
    needs_several_cores,  ///< of a CPU, as one device
    one_layer,            ///< nothing to cut
    few_samples,          ///< fewer than devices
    over_cap,             ///< even its smallest plan needs `needed_bytes` on `device`, which may hold `cap_bytes`
    none_within_caps,
    other_plans_asked,  ///< the user's options ask for other plans
    none_found,
  };
  Why why = Why::none_found;
  int needed = 0;
  int available = 0;
  std::string device{};
  std::int64_t needed_bytes = 0;
  std::int64_t cap_bytes = 0;
  std::string words{};  ///< the whole sentence, where a study of an older version holds nothing else; otherwise empty
  bool operator==(const NoPlan&) const = default;
};

/// Whether memory is why.
[[nodiscard]] bool too_large(const NoPlan& reason);

/// "over_cap", as in the enumeration.
[[nodiscard]] const char* to_string(NoPlan::Why why);
/// Inverse of to_string; none_found for any other text.
[[nodiscard]] NoPlan::Why why_from(const std::string& text);

/// "needs at least 3 devices; 2 available". Worded here, not in reports/render, because a study's file holds the sentence.
[[nodiscard]] std::string text_of(const NoPlan& reason);

}  // namespace mptune::tuner
