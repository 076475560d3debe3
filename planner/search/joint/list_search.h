#pragma once

#include "planner/search/joint/family_table.h"
#include "planner/search/joint/local_search.h"
#include "planner/search/joint/work_share.h"

namespace mptune::planner {

/// Tries `list` plans where there are also other schedules. This proves nothing: making the rows takes as long as dozens of simulations.
class ListSearch {
 public:
  /// Both arguments must outlive this object.
  ListSearch(FamilyTable& table, LocalSearch& local);

  /// Tries a few plans of each of the families with the smallest bounds, as far as a part of the work allows. Where all devices are alike,
  /// it also tries families with more stages per device, as long as these are faster.
  void first();
  /// Tries plans on the devices and micro-batches where other plans are fastest, with their cuts and some neighbours; also plans of the
  /// families that FamilyTable::add() added.
  void last();
  /// Returns the most stages per device, above those that the table lists, of which first() tried plans; 0: none.
  [[nodiscard]] int stages_per_device() const { return stages_per_device_; }

 private:
  [[nodiscard]] bool tries(const FamilyState& state) const;
  [[nodiscard]] bool try_seeds(FamilyState& state, const WorkShare& share);
  [[nodiscard]] FamilyState* try_first_families(const WorkShare& share);
  void try_more_stages(const WorkShare& share);
  [[nodiscard]] const FamilyState* fastest_alike(const FamilyState& state) const;

  FamilyTable& table_;
  Evaluator& evaluator_;
  LocalSearch& local_;
  int stages_per_device_ = 0;
};

}  // namespace mptune::planner
