#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/partition/prices.h"
#include "planner/simulate/operations.h"

namespace mptune::planner {

/// How often each slot (prices.h) lies on one path through a step. The path's length is a lower bound of the step of every plan of the
/// family.
struct Path {
  std::vector<int> count;  ///< per slot
  int of = 1;              ///< for a path mixture: number of paths that `count` sums up
  bool operator==(const Path&) const = default;
};

/// Times plans of a family whose rows are the same for all cuts: operations are listed once, and a plan changes only their prices.
class StepTimes {
 public:
  /// `operations` are those of any plan of the family; their slots are added to `prices`.
  StepTimes(const Operations& operations, Prices& prices);

  /// Returns the step of the plan with these cuts [ns]. A call takes some microseconds.
  std::int64_t step_ns(const std::vector<int>& cuts);
  /// False if devices slow each other or links share a medium: then step_ns() is a lower bound.
  [[nodiscard]] bool exact() const { return exact_; }
  /// Returns the fixed cost of a step, which no path contains.
  [[nodiscard]] std::int64_t step_cost_ns() const { return step_cost_ns_; }
  /// Returns a longest path through the step that was timed last.
  [[nodiscard]] Path longest_path() const;

  /// Returns, for every stage, a path along one of its devices: the longest path if that stage is much slower than all others.
  std::vector<Path> row_paths();
  /// Returns, for every stage, a path along one of its devices that exists for every order of the rows, through the stage's actions and
  /// those of later stages on the device. Requires: micro-batches of one size. `splits` says that the order decides which backwards are
  /// split, so that backwards are left out.
  [[nodiscard]] std::vector<Path> row_paths_of_any_order(bool splits) const;
  /// Returns further paths that exist for every order of the rows (compare shortest_of_any_order() in schedule/warm_ups.h); none where
  /// micro-batches have several sizes. Requires: every stage on one device that has no other stage; all backwards whole, or all split.
  [[nodiscard]] std::vector<Path> round_trips() const;

 private:
  struct Item {
    int slot = 0;
    int lane = 0;
    int input = 0;   ///< place in end_ns_ of what must have ended, 0: nothing
    int before = 0;  ///< place in end_ns_ of the item before it on the same lane, 0: none
  };
  // Reductions of gradients, then updates of parameters: they start when all actions have ended.
  struct EndItem {
    int slot = 0;
    int before = -1;  ///< end item on the same lane
    int first = 0;    ///< end items [first, last) must have ended
    int last = 0;
    int reason = -1;  ///< the end item of those waited for that ended last
    std::int64_t end_ns = 0;
  };
  void add_end_item(const Operation& operation, int slot, std::vector<int>& last_on, std::vector<std::pair<int, int>>& reductions);
  std::int64_t time();
  std::int64_t time_end_phase();
  [[nodiscard]] std::vector<std::vector<int>> copies(bool gradients) const;
  [[nodiscard]] std::vector<std::vector<int>> actions(EventKind kind) const;
  void add_end_phase(int stage, Path& path) const;

  const Prices& prices_;
  int stages_ = 0;
  bool exact_;
  std::vector<Item> items_;
  std::vector<EndItem> end_items_;
  std::int64_t step_cost_ns_ = 0;
  std::vector<std::int64_t> slot_ns_;
  std::vector<std::int64_t> end_ns_;  ///< end of item i at i + 1
  std::int64_t actions_end_ns_ = 0;
  int final_ = -1;  ///< end item that ended last
};

}  // namespace mptune::planner
