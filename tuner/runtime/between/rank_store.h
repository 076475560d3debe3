#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "profiler/base/rank.h"

namespace mptune::tuner {

/// Texts that ranks leave for each other, by name. Thread-safe. All functions throw Error (environment) where the store has ended,
/// StoreSilent where it does not answer, and ForeignWrite where somebody else has written what is found.
class RankStore {
 public:
  virtual ~RankStore() = default;
  /// Others find it once this has returned.
  virtual void set(const std::string& name, const std::string& text) = 0;
  /// Nothing where no rank has set it.
  [[nodiscard]] virtual std::optional<std::string> find(const std::string& name) = 0;
  /// Adds to a number, 0 at first, and returns it.
  virtual std::int64_t add(const std::string& name, std::int64_t number) = 0;
};

/// The store of these ranks, which another process runs (keep_rank_store() or torchrun). Waits for it at most `patience_s`.
/// Throws Error (environment).
[[nodiscard]] std::shared_ptr<RankStore> open_rank_store(const RankPlace& place, double patience_s);
/// Runs it in this process, as long as the result lives. Throws Error (environment) where the port is taken.
[[nodiscard]] std::shared_ptr<RankStore> keep_rank_store(const RankPlace& place);

}  // namespace mptune::tuner
