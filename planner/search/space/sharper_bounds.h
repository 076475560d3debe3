#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "planner/search/bounds/family_bound.h"
#include "planner/search/space/plan_family.h"

namespace mptune::planner {

/// Better bounds of families than FamilyBound::of, and cuts to try first. Finding either takes up to milliseconds, so it is found once for
/// all families with the same stages, number of micro-batches and kind of backward.
class SharperBounds {
 public:
  /// `indices` has the index in the profile of each device of the space. Both arguments must outlive this object.
  SharperBounds(FamilyBound& bounds, const std::vector<int>& indices) : bounds_(bounds), indices_(indices) {}

  /// Raises the bound of a family where FamilyBound::of_any_order knows a better one. A second call changes nothing.
  void sharpen(PlanFamily& family);
  /// Finds the bound of stages on one device each, indices into the space's, whose backward is split.
  void find(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes);
  /// Returns the bound that find() or sharpen() found for `m` micro-batches; 0: they were not asked.
  [[nodiscard]] std::int64_t known_ns(const std::vector<std::vector<int>>& stages, int m) const;
  /// Returns cuts to try first, the likeliest ones first: where there are several stages on each device FamilyBound::suited_cuts(), then
  /// the seed.
  [[nodiscard]] const std::vector<std::vector<int>>& seeds(const PlanFamily& family);

 private:
  using Key = std::tuple<std::vector<std::vector<int>>, int, bool>;  // stages, number of micro-batches, splits
  [[nodiscard]] std::int64_t bound_ns(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits);

  FamilyBound& bounds_;
  const std::vector<int>& indices_;
  std::map<Key, std::int64_t> known_;
  std::map<Key, std::vector<std::vector<int>>> seeds_;
};

}  // namespace mptune::planner
