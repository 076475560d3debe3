#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/published/ideals.h"
#include "planner/published/load_bounds.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// Cuts of a problem: what lies before each cut, and who runs the parts between.
struct LoadSplit {
  std::vector<int> ideals;     ///< the empty one, one per cut, the full one
  std::vector<bool> on_hosts;  ///< per part
  std::int64_t load_ns = 0;    ///< the largest load of a part
  std::int64_t copy_ns = 0;    ///< sum over all parts
};

/// How much work a search may do, and how much it did.
struct LoadWork {
  std::int64_t most_pairs = 0;
  std::int64_t pairs = 0;
  std::function<bool()> stop;  ///< empty: never
  bool ended = false;          ///< `stop` said so, or there were `most_pairs` pairs
};

/// Finds the best splits whose cuts are ideals (sets closed under predecessors) of one family.
class LoadSearch {
 public:
  /// `ideals` are sorted, and hold the empty and the full one. Keeps references to its arguments.
  LoadSearch(const LoadProblem& problem, const LoadBounds& bounds, const Ideals& ideals, LoadWork& work);

  /// Returns the split with the smallest largest load, if it is at most `most_ns`; nullopt if there is none, or if the work ended.
  [[nodiscard]] std::optional<LoadSplit> least_load(std::int64_t most_ns);
  /// Returns the split with the fewest nanoseconds of copies among those with no load above `most_ns`; nullopt if there is none, or if the
  /// work ended.
  [[nodiscard]] std::optional<LoadSplit> fewest_copies(std::int64_t most_ns);

 private:
  static constexpr std::int64_t kNone = INT64_MAX;
  struct Part {
    bool on_device = false;
    bool on_host = false;
    std::int64_t compute_ns = 0;  ///< time on a device
    std::int64_t copy_ns = 0;     ///< copies, on a device
    std::int64_t host_ns = 0;
  };
  // Leads from a state of an ideal to a state with one more device or host used.
  struct Transition {
    std::int64_t value = 0;  ///< value of the state it comes from
    std::size_t to = 0;
    bool on_host = false;
  };

  [[nodiscard]] std::optional<LoadSplit> run();
  [[nodiscard]] std::vector<Transition> transitions(int ideal) const;
  void extend(int ideal);
  [[nodiscard]] bool may_improve(const std::vector<Transition>& transitions, int ideal, int next) const;
  [[nodiscard]] Part part(int ideal, int next) const;
  [[nodiscard]] std::int64_t joined(std::int64_t value, const Part& part, bool on_host) const;
  [[nodiscard]] LoadSplit traced() const;
  [[nodiscard]] std::size_t state(int devices, int hosts) const { return as_index(devices * (problem_.hosts + 1) + hosts); }
  [[nodiscard]] std::int64_t& value(int ideal, std::size_t state) { return values_[as_index(ideal) * states_ + state]; }
  [[nodiscard]] std::int64_t value(int ideal, std::size_t state) const { return values_[as_index(ideal) * states_ + state]; }

  const LoadProblem& problem_;
  const LoadBounds& bounds_;
  const Ideals& ideals_;
  LoadWork& work_;
  std::size_t states_ = 0;            ///< devices used x hosts used
  std::vector<std::int64_t> values_;  ///< per ideal and state: the least of the objective over splits of the ideal
  std::int64_t most_ns_ = 0;
  bool copies_ = false;                 ///< the objective: the sum of copies, not the largest load
  std::vector<std::int64_t> at_least_;  ///< per state: device work that must lie before a cut, so that the other devices can carry the rest
};

}  // namespace mptune::planner
