#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "tuner/runtime/between/rank_streams.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// What all ranks do with one plan of a series.
enum class SeriesWork { build, step, drop, finish, end };

/// Lets the ranks of a series do the same at the same time: rank 0 tells what, and all learn how it went. Alone it does nothing. Throws
/// what RankGroup::receive() throws.
class SeriesRanks {
 public:
  /// `ranks`: null for a process that was started alone. `entries`: how many plans there are.
  SeriesRanks(const std::shared_ptr<RankGroup>& ranks, int entries);

  [[nodiscard]] bool lead() const { return !streams_ || streams_->group().rank() == 0; }
  /// On rank 0; no effect on others. `entry`: the plan's index.
  void tell(SeriesWork work, int entry);
  /// On other ranks: what comes next.
  [[nodiscard]] std::pair<SeriesWork, int> told();

  /// Nothing: it went well. An outcome of the plan's. Or an error that ends the series.
  using End = std::variant<std::monostate, Outcome, std::exception_ptr>;
  /// How it went on all ranks, the same on each but for the words of an error: an outcome on any rank is the plan's, and counts more than
  /// errors, which ranks have that miss the one whose plan failed.
  [[nodiscard]] End agree(End own);

 private:
  std::optional<RankStreams> streams_;
  int entries_;
};

}  // namespace mptune::tuner
