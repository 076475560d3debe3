#include "planner/search/space/choices.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "planner/plan/executable.h"
#include "planner/plan/helping.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/make_plan.h"
#include "planner/search/search_budget.h"
#include "planner/search/space/alike_devices.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kMostPlans = 1'000'000'000'000'000;  // more plans than this are not counted

std::vector<int> default_counts(int batch) {
  std::vector<int> counts;
  for (int power = 1; power <= batch; power *= 2) {
    counts.push_back(power);
    if (power >= 2 && power + power / 2 <= batch) counts.push_back(power + power / 2);
    if (power > batch / 2) break;
  }
  return counts;
}

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Lists all ways to share `left` devices among the stages from here on, at least one for each, as long as there is room.
void share_out(int left, int stages, std::vector<int>& chosen, std::vector<std::vector<int>>& shapes) {
  if (static_cast<int>(shapes.size()) >= SearchBudget::kMostShapes) return;
  if (stages == 1) {
    chosen.push_back(left);
    shapes.push_back(chosen);
    chosen.pop_back();
    return;
  }
  for (int count = 1; count <= left - stages + 1; ++count) {
    chosen.push_back(count);
    share_out(left - count, stages - 1, chosen, shapes);
    chosen.pop_back();
  }
}

}  // namespace

std::int64_t sets_of_cuts(std::int64_t places, int stages) {
  if (places < stages - 1) return 0;
  double count = 1;
  for (int i = 1; i < stages; ++i) count = count * static_cast<double>(places - i + 1) / i;
  return count > static_cast<double>(kMostPlans) ? kMostPlans : std::llround(count);
}

Choices::Choices(const SearchSpace& space, const CostModel& cost, const std::vector<std::int64_t>& caps)
    : space_(space),
      cost_(cost),
      alike_(alike_devices(space, cost, caps)),
      indices_(cost.device_indices(space.devices)),
      counts_(shared_counts(1)),
      schedules_(space),
      bounds_(cost),
      sharper_(bounds_, indices_) {
  for (int layer = 1; layer < cost.layers(); ++layer)
    if (cost.may_cut(layer)) cuts_.push_back(layer);
  if (space.recompute == "all") return;
  for (const int s : recomputed_stages(space.recompute, cost.layers())) least_stages_ = s + 1;
}

std::vector<int> Choices::shared_counts(int replicas) const {
  const auto [fewest, most] = allowed_counts(space_.samples, space_.batch);
  std::vector<int> counts = space_.microbatch_counts;
  if (counts.empty()) {
    for (const int each : default_counts(space_.batch / replicas)) counts.push_back(each * replicas);
    counts.push_back((fewest + replicas - 1) / replicas * replicas);
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  std::erase_if(counts, [&](int m) { return m < fewest || m > most || m % replicas != 0; });
  return counts;
}

bool Choices::wanted_stages(int stages) const {
  if (stages < least_stages_ || stages > cost_.layers() || sets_of_cuts(static_cast<std::int64_t>(cuts_.size()), stages) == 0) return false;
  if (!space_.replicas.empty() && static_cast<int>(space_.replicas.size()) != stages) return false;
  if (!space_.stage_counts.empty()) return contains(space_.stage_counts, stages);
  if (space_.cuts.empty()) return true;
  return std::any_of(space_.cuts.begin(), space_.cuts.end(), [&](const auto& cuts) { return static_cast<int>(cuts.size()) + 1 == stages; });
}

void Choices::set_recompute(Plan& plan) const {
  for (const int s : recomputed_stages(space_.recompute, plan.num_stages())) plan.stages[as_index(s)].recompute.mode = Recompute::Mode::all;
}

std::vector<int> Choices::distinct_devices() const {
  std::vector<int> distinct = alike_;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  return distinct;
}

bool Choices::wanted_virtual(int virtual_stages) const {
  return space_.virtual_counts.empty() ? virtual_stages <= first_virtual() : contains(space_.virtual_counts, virtual_stages);
}

std::vector<PlanFamily> Choices::pipelines() {
  const auto devices = static_cast<int>(space_.devices.size());
  const auto ones = [](int stages) { return std::vector<int>(as_index(stages), 1); };
  std::vector<Shape> straight;
  std::vector<Shape> replicated;
  if (!space_.replicas.empty()) {
    if (space_.replicas.size() > 1 && wanted_virtual(1)) replicated.push_back({space_.replicas, 1});
  } else {
    for (int stages = 2; stages <= devices && wanted_virtual(1); ++stages) straight.push_back({ones(stages), 1});
    std::vector<int> virtual_counts = space_.virtual_counts;
    for (int v = 2; space_.virtual_counts.empty() && v <= first_virtual(); ++v) virtual_counts.push_back(v);
    for (const int v : virtual_counts)
      if (v > 1 && v <= cost_.layers() && devices > 1) straight.push_back({ones(devices), v});
    if (!space_.no_replicas) replicated = replicated_shapes();
  }
  std::vector<PlanFamily> families;
  const std::size_t most = as_index(space_.most_families);
  add_shapes(straight, replicated.empty() ? most : most / 2, families);
  add_shapes(replicated, most, families);
  std::ranges::stable_sort(families, {}, &PlanFamily::bound_ns);
  if (unlisted_plans_ > 0) bound_unlisted();
  return families;
}

int Choices::most_virtual() const {
  const auto devices = static_cast<int>(space_.devices.size());
  if (!space_.virtual_counts.empty() || !space_.replicas.empty() || devices < 2) return 0;
  return static_cast<int>(cuts_.size() + 1) / devices;
}

int Choices::first_virtual() const {
  return space_.cuts.empty() ? SearchBudget::kFirstVirtual : std::max(SearchBudget::kFirstVirtual, most_virtual());
}

std::vector<PlanFamily> Choices::with_stages_per_device(int virtual_stages) {
  std::vector<PlanFamily> families;
  if (virtual_stages > most_virtual()) return families;
  const std::int64_t before = unlisted_plans_;
  add_shape({std::vector<int>(space_.devices.size(), 1), virtual_stages}, SearchBudget::kMostFurtherFamilies, families);
  if (unlisted_plans_ > before) bound_unlisted();
  std::ranges::stable_sort(families, {}, &PlanFamily::bound_ns);
  return families;
}

void Choices::leave_out(const std::vector<PlanFamily>& families) {
  for (const PlanFamily& family : families) {
    unlisted_plans_ = std::min(unlisted_plans_ + family.plans, kMostPlans);
    unlisted_bound_ns_ = std::min(unlisted_bound_ns_, family.bound_ns);
  }
}

std::vector<std::vector<int>> Choices::looped_stages(int virtual_stages) const {
  std::vector<std::vector<int>> stages;
  for (int v = 0; v < virtual_stages; ++v)
    for (int device = 0; device < static_cast<int>(indices_.size()); ++device) stages.push_back({device});
  return stages;
}

void Choices::sharpen_stages_per_device(int virtual_stages, std::int64_t step_ns) {
  const std::vector<std::vector<int>> stages = looped_stages(virtual_stages);
  if (distinct_devices().size() != 1 || static_cast<int>(stages.size()) > SearchBudget::kMostSharpened) return;
  for (const int m : counts_) {
    if (m < 2 || schedules_.names(m, virtual_stages).empty()) continue;
    const std::vector<int> sizes = split_evenly(space_.batch, m);
    if (bounds_.of(in_profile(stages, indices_), sizes, true).step_ns <= step_ns) sharper_.find(stages, sizes);
  }
}

// Where devices differ, the bound holds for all placements.
bool Choices::leave_out_stages_per_device(int virtual_stages) {
  const std::vector<std::vector<int>> stages = looped_stages(virtual_stages);
  const bool alike = distinct_devices().size() == 1;
  bool any = false;
  for (const int m : counts_) {
    const bool helped = !schedules_.helping_names(m, virtual_stages).empty();
    if (!helped && schedules_.names(m, virtual_stages).empty()) continue;
    any = true;
    const bool one_bound = helped || !alike;
    const std::vector<std::vector<int>> bounded = one_bound ? std::vector<std::vector<int>>{indices_} : in_profile(stages, indices_);
    const std::int64_t bound_ns = bounds_.of(bounded, split_evenly(space_.batch, m), true).step_ns;
    const std::int64_t sharper_ns = one_bound ? 0 : sharper_.known_ns(stages, m);
    unlisted_bound_ns_ = std::min(unlisted_bound_ns_, std::max(bound_ns, sharper_ns));
  }
  if (any) leave_out(1, static_cast<int>(stages.size()));
  return any;
}

std::vector<Choices::Shape> Choices::replicated_shapes() {
  const auto devices = static_cast<int>(space_.devices.size());
  std::vector<std::vector<int>> found;
  std::vector<int> chosen;
  for (int stages = 2; stages < devices && wanted_virtual(1); ++stages) {
    if (!wanted_stages(stages)) continue;
    const std::size_t before = found.size();
    share_out(devices, stages, chosen, found);
    // There are as many shapes as sets of places where the devices of a stage end.
    const std::int64_t left_out = sets_of_cuts(devices - 1, stages) - static_cast<std::int64_t>(found.size() - before);
    if (left_out > 0) leave_out(left_out, stages);
  }
  std::vector<Shape> shapes;
  for (std::vector<int>& replicas : found) shapes.push_back({std::move(replicas), 1});
  return shapes;
}

// Each shape gets its share of the list, and what earlier shapes left over. Otherwise the many placements of few stages would fill the list
// where all devices differ.
void Choices::add_shapes(const std::vector<Shape>& shapes, std::size_t most, std::vector<PlanFamily>& families) {
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::size_t room = most - std::min(most, families.size());
    add_shape(shapes[i], families.size() + room / (shapes.size() - i), families);
  }
}

void Choices::leave_out(std::int64_t placements, int stages) {
  const double plans =
      static_cast<double>(placements) * static_cast<double>(sets_of_cuts(static_cast<std::int64_t>(cuts_.size()), stages)) +
      static_cast<double>(unlisted_plans_);
  unlisted_plans_ = std::llround(std::min(plans, static_cast<double>(kMostPlans)));
}

// Bounds what holds for every plan, or for every plan with one stage on a device.
void Choices::bound_unlisted() {
  for (const int m : counts_) {
    const std::vector<int> sizes = split_evenly(space_.batch, m);
    const bool any = several_unlisted_ || schedules_.any_help();
    const std::int64_t bound_ns = any ? bounds_.of({indices_}, sizes, true).step_ns : bounds_.of_one_stage_per_device(indices_, sizes);
    unlisted_bound_ns_ = std::min(unlisted_bound_ns_, bound_ns);
  }
}

// Adds all different placements. Of devices that may be swapped, the first free one is taken. Whether a placement has families does not
// depend on its devices: where the first has none, no other is tried.
void Choices::add_shape(const Shape& shape, std::size_t most, std::vector<PlanFamily>& families) {
  const auto& [replicas, virtual_stages] = shape;
  if (!wanted_stages(static_cast<int>(replicas.size()) * virtual_stages)) return;
  const auto seats = as_index(std::accumulate(replicas.begin(), replicas.end(), 0));
  std::vector<int> chosen;
  bool none = false;
  bool full = false;  // the list is full, and another placement is left
  const auto place = [&](const auto& again) -> void {
    if (none || full) return;
    if (chosen.size() == seats) {
      const std::size_t before = families.size();
      full = before >= most;
      if (!full) add_placement(replicas, virtual_stages, chosen, families);
      none = !full && families.size() == before;
      return;
    }
    std::set<int> seen;
    for (int d = 0; d < static_cast<int>(space_.devices.size()); ++d) {
      if (contains(chosen, d) || !seen.insert(alike_[as_index(d)]).second) continue;
      chosen.push_back(d);
      again(again);
      chosen.pop_back();
    }
  };
  place(place);
  several_unlisted_ |= full && virtual_stages > 1;
  if (full) leave_out(1, static_cast<int>(replicas.size()) * virtual_stages);
}

void Choices::add_placement(const std::vector<int>& replicas, int virtual_stages, const std::vector<int>& chosen,
                            std::vector<PlanFamily>& families) {
  std::vector<std::vector<int>> stages;
  auto next = chosen.begin();
  for (const int count : replicas) {
    stages.emplace_back(next, next + count);
    next += count;
  }
  const int most_replicas = *std::max_element(replicas.begin(), replicas.end());
  for (const int m : counts_) {
    // No replica goes without a micro-batch.
    if (m < most_replicas) continue;
    const auto add = [&](const std::string& schedule, bool helping) {
      PlanFamily family{stages, split_evenly(space_.batch, m), schedule, virtual_stages, helping, 0, {}, 0, {}};
      if (virtual_stages > 1) {
        family.devices.clear();
        for (const int d : stage_devices(schedule, static_cast<int>(chosen.size()), virtual_stages))
          family.devices.push_back({chosen[as_index(d)]});
      }
      if (finish(family)) families.push_back(std::move(family));
    };
    for (const std::string& schedule : schedules_.names(m, virtual_stages)) add(schedule, false);
    for (const std::string& schedule : schedules_.helping_names(m, virtual_stages)) add(schedule, true);
  }
}

// Bounds and executability depend on less than the family, so what was found is kept. The rows of a list schedule depend on its costs, cuts
// and everything else: each plan may split its backward or not.
bool Choices::finish(PlanFamily& family) {
  const Kind kind{family.schedule, family.virtual_stages, family.replicated(), family.helping};
  auto known = kinds_.find(kind);
  if (known == kinds_.end()) {
    Plan plan = family.plan(space_, equal_cuts(cost_.layers(), family.stages()), cost_.layers());
    const ScheduleInfo& schedule = schedule_info(family.schedule);
    const bool fits = missing_for(schedule, Layout(plan)).empty();
    const bool is_list = schedule.rows_from == RowsFrom::search;
    if (fits && !is_list) make_schedule(plan, family.schedule);
    const bool splits = is_list || splits_backward(plan);
    const auto missing = missing_capability(plan, space_.capabilities);
    const bool rows_decide = !missing && is_list && !space_.capabilities.split_backward;
    known = kinds_.emplace(kind, KindFacts{fits && (splits || !family.helping), splits, missing, rows_decide}).first;
  }
  if (!known->second.exists) return false;
  family.missing = known->second.missing;
  family.splits = known->second.splits;
  family.rows_decide = known->second.rows_decide;
  const auto key = std::tuple(family.devices, static_cast<int>(family.sizes.size()), known->second.splits, family.helping);
  if (last_bound_key_ != key) {
    last_bound_ = bounds_.of(in_profile(family.devices, indices_), family.sizes, known->second.splits, family.helping);
    last_bound_key_ = key;
  }
  family.bound_ns = last_bound_.step_ns;
  family.seed = last_bound_.cuts;
  family.plans = sets_of_cuts(static_cast<std::int64_t>(cuts_.size()), family.stages());
  return true;
}

}  // namespace mptune::planner
