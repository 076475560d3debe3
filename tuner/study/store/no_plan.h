#pragma once

#include <cstdint>
#include <string>

namespace mptune::tuner {

/// Why the search has no plan of a kind of parallelism.
struct NoPlan {
  enum class Why {
    needs_devices,        ///< `needed` devices; there are `available`
    needs_several_cores,  ///< of a CPU as one device
    one_layer,            ///< nothing to cut
    few_samples,          ///< fewer samples than devices
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

/// Returns whether memory is the reason.
[[nodiscard]] bool too_large(const NoPlan& reason);

/// Returns the name in the enumeration: "over_cap".
[[nodiscard]] const char* to_string(NoPlan::Why why);
/// Does the inverse of to_string(); returns none_found for any other text.
[[nodiscard]] NoPlan::Why why_from(const std::string& text);

/// Returns a clause: "needs at least 3 devices; 2 available". It is worded here, not in reports/render, because a study's file holds the
/// sentence.
[[nodiscard]] std::string text_of(const NoPlan& reason);

}  // namespace mptune::tuner
