#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/bounds/family_bound.h"
#include "planner/search/space/plan_family.h"
#include "planner/search/space/schedule_choices.h"
#include "planner/search/space/search_space.h"
#include "planner/search/space/sharper_bounds.h"

namespace mptune::planner {

/// Lists every value of the choices that a search space leaves open.
class Choices {
 public:
  /// `space` and `cost` must outlive this object. `caps` are per device of the space, 0: none. Throws Error for devices that the profile
  /// does not know and for schedules that have no generator.
  Choices(const SearchSpace& space, const CostModel& cost, const std::vector<std::int64_t>& caps);
  Choices(const Choices&) = delete;
  Choices& operator=(const Choices&) = delete;

  [[nodiscard]] bool wanted_stages(int stages) const;
  [[nodiscard]] bool wanted_virtual(int virtual_stages) const;
  /// Returns the numbers of micro-batches, ascending.
  [[nodiscard]] const std::vector<int>& counts() const { return counts_; }
  /// Returns the numbers of micro-batches that `replicas` replicas of one stage share evenly. Counts from the user are per batch; default
  /// counts are per replica.
  [[nodiscard]] std::vector<int> shared_counts(int replicas) const;
  [[nodiscard]] const ScheduleChoices& schedules() const { return schedules_; }
  /// Sets the recomputation that the space asks for. Requires: wanted_stages(plan.num_stages()).
  void set_recompute(Plan& plan) const;
  /// Returns one of each set of interchangeable devices: equal class, memory cap and links.
  [[nodiscard]] std::vector<int> distinct_devices() const;

  /// Returns all families of at least two stages that are wanted, smallest bound first.
  [[nodiscard]] std::vector<PlanFamily> pipelines();
  /// Returns the families with `virtual_stages` stages on each device, more than pipelines() lists; none where the space does not allow so
  /// many.
  [[nodiscard]] std::vector<PlanFamily> with_stages_per_device(int virtual_stages);
  /// These return the most stages on each device that pipelines() and with_stages_per_device() list.
  [[nodiscard]] int first_virtual() const;
  [[nodiscard]] int most_virtual() const;
  /// Returns better bounds of the families, and cuts to try first.
  [[nodiscard]] SharperBounds& sharper() { return sharper_; }
  /// Finds better bounds of the families that leave_out_stages_per_device() counts, as far as they matter beside a step of `step_ns`.
  void sharpen_stages_per_device(int virtual_stages, std::int64_t step_ns);
  /// Counts the families, which are not to be searched, and finds a bound of them.
  void leave_out(const std::vector<PlanFamily>& families);
  /// Counts the families that with_stages_per_device() would list, and finds one bound of all of them. False if there are none.
  bool leave_out_stages_per_device(int virtual_stages);
  /// Returns a lower bound of the number of plans in families that were left out, by pipelines() because it lists a limited number, or by
  /// leave_out(); 0: none.
  [[nodiscard]] std::int64_t unlisted_plans() const { return unlisted_plans_; }
  /// Returns a bound: none of the unlisted plans takes less. Set only if unlisted_plans() > 0.
  [[nodiscard]] std::int64_t unlisted_bound_ns() const { return unlisted_bound_ns_; }

 private:
  using Kind = std::tuple<std::string, int, bool, bool>;  // schedule, stages per device, replicas, idle devices help
  struct KindFacts {
    bool exists = false;  // the schedule supports such stages
    bool splits = false;  // the schedule splits the backward
    std::optional<MissingCapability> missing;
    bool rows_decide = false;  // see PlanFamily
  };
  struct Shape {
    std::vector<int> replicas;  // number of replicas of each stage
    int virtual_stages = 1;
  };
  [[nodiscard]] std::vector<Shape> replicated_shapes();
  void add_shapes(const std::vector<Shape>& shapes, std::size_t most, std::vector<PlanFamily>& families);
  void add_shape(const Shape& shape, std::size_t most, std::vector<PlanFamily>& families);
  void add_placement(const std::vector<int>& replicas, int virtual_stages, const std::vector<int>& chosen,
                     std::vector<PlanFamily>& families);
  void leave_out(std::int64_t placements, int stages);
  void bound_unlisted();
  [[nodiscard]] bool finish(PlanFamily& family);
  [[nodiscard]] std::vector<std::vector<int>> looped_stages(int virtual_stages) const;

  const SearchSpace& space_;
  const CostModel& cost_;
  std::vector<int> alike_;    // per device: the first device that is interchangeable with it
  std::vector<int> indices_;  // per device: its index in the profile
  std::vector<int> counts_;
  ScheduleChoices schedules_;
  std::vector<int> cuts_;  // layers where a stage may begin
  int least_stages_ = 1;   // a plan of fewer stages lacks a stage that is to be recomputed
  std::int64_t unlisted_plans_ = 0;
  bool several_unlisted_ = false;  // plans of several stages on a device are among the unlisted ones
  std::int64_t unlisted_bound_ns_ = std::numeric_limits<std::int64_t>::max();
  std::map<Kind, KindFacts> kinds_;
  FamilyBound bounds_;
  SharperBounds sharper_;
  std::tuple<std::vector<std::vector<int>>, int, bool, bool> last_bound_key_;
  FamilyBound::Bound last_bound_;
};

/// Returns the number of sets of cuts, each of which has `stages` - 1 of `places`; at most 10^15.
[[nodiscard]] std::int64_t sets_of_cuts(std::int64_t places, int stages);

}  // namespace mptune::planner
