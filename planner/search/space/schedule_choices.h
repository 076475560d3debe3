#pragma once

#include <string>
#include <vector>

#include "planner/search/space/search_space.h"

namespace mptune::planner {

/// True if the space has plans whose idle devices help.
[[nodiscard]] bool may_help(const SearchSpace& space);

/// Lists the schedules that a space wants for a number of micro-batches and a number of stages per device. Of schedules that make the same
/// rows for these numbers, it lists one.
class ScheduleChoices {
 public:
  /// `space` must outlive this object. Throws Error for schedules that have no generator.
  explicit ScheduleChoices(const SearchSpace& space);

  [[nodiscard]] std::vector<std::string> names(int m, int virtual_stages) const;
  /// Returns the schedules of plans whose idle devices help.
  [[nodiscard]] std::vector<std::string> helping_names(int m, int virtual_stages) const;
  /// True if may_help() holds for the space.
  [[nodiscard]] bool any_help() const { return !helping_.empty(); }
  /// Returns the schedule if the space asks for one only and one stage can have it; else "".
  [[nodiscard]] std::string of_one_stage(int m) const;

 private:
  [[nodiscard]] bool wanted(const std::string& name, int virtual_stages) const;

  const SearchSpace& space_;
  std::vector<std::string> names_;
  std::vector<std::string> helping_;
};

}  // namespace mptune::planner
