#pragma once

/// What is recorded: kinds of records, and of the kinds RUNTIME and DRIVER the single calls.

#include <cupti.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tests/emulation/machine/machine.h"

namespace emulation::cupti {

class Switches {
 public:
  /// INVALID_KIND for what CUPTI doesn't record, NOT_COMPATIBLE for kinds of EMULATED_REFUSED_KINDS, NOT_SUPPORTED for those that are not
  /// emulated.
  [[nodiscard]] CUptiResult enable(CUpti_ActivityKind kind);
  [[nodiscard]] CUptiResult disable(CUpti_ActivityKind kind);
  void enable_call(Domain domain, std::uint32_t id, bool yes);
  void disable_all();

  [[nodiscard]] bool records(CUpti_ActivityKind kind) const { return kinds_[kind].on; }
  [[nodiscard]] bool records_call(Domain domain, int id) const;

  /// Whether work is recorded that the call of this number enqueued: the kind must be enabled, and must have been when the call began. With
  /// EMULATED_LATE_RECORDS also work that ends only after the kind was disabled. 0: of no call, which is always recorded.
  [[nodiscard]] bool records_work(CUpti_ActivityKind kind, std::uint32_t correlation) const;

  /// A call with this number began.
  void call_began(std::uint32_t correlation);

 private:
  static constexpr std::size_t kKinds = CUPTI_ACTIVITY_KIND_COUNT;
  static constexpr std::size_t kCalls = 1024;

  struct Kind {
    std::atomic<bool> on = false;
    std::atomic<std::uint32_t> first = 0;       // correlations of calls since it was enabled
    std::atomic<std::uint32_t> late_first = 1;  // correlations of calls before it was disabled
    std::atomic<std::uint32_t> late_last = 0;
  };
  using Calls = std::array<std::atomic<bool>, kCalls>;

  static bool is_kind(CUpti_ActivityKind kind) { return kind > 0 && static_cast<std::size_t>(kind) < kKinds; }
  Calls* calls_of(CUpti_ActivityKind kind);
  void enable_calls(CUpti_ActivityKind kind, bool yes);

  std::array<Kind, kKinds> kinds_;
  Calls runtime_{};
  Calls driver_{};
  std::atomic<std::uint32_t> first_seen_ = UINT32_MAX;  // calls before it began unobserved
  std::atomic<std::uint32_t> last_seen_ = 0;
};

/// Those of the process.
[[nodiscard]] Switches& switches();

}  // namespace emulation::cupti
