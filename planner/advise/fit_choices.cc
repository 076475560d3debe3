#include "planner/advise/fit_choices.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "planner/advise/fit_variants.h"
#include "planner/plan/plan_error.h"
#include "planner/search/make_plan.h"
#include "planner/search/search.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kMostActionsOfOne = 1'500'000;
constexpr int kMostCounted = 64;  // devices
constexpr int kMostCapsTried = 6;

using Values = std::vector<FieldValue>;

/// A part of the space that users restrict, and how they would ask for what a plan has of it.
struct Restriction {
  bool set = false;
  std::function<void(SearchSpace&)> release;
  std::function<Values(const Plan&)> values;
};

FieldValue virtual_stages_value(const Plan& plan) {
  return {Field::virtual_stages, std::to_string(std::max<std::size_t>(1, plan.stages.size() / plan.devices.size()))};
}

/// Returns what a plan has of the stages that `space` restricts. Cuts and replicas that say otherwise are left out.
Values stages_values(const Plan& plan, const SearchSpace& space) {
  Values values;
  if (!space.cuts.empty()) values.push_back({Field::cuts, ""});
  if (!has_replicas(plan)) {
    values.push_back({Field::stages, std::to_string(plan.num_stages())});
    if (plan.stages.size() > plan.devices.size()) values.push_back(virtual_stages_value(plan));
    if (!space.replicas.empty()) values.push_back({Field::replicas, ""});
    return values;
  }
  std::string counts;
  for (const Stage& stage : plan.stages) counts += (counts.empty() ? "" : ",") + std::to_string(stage.devices.size());
  values.push_back({Field::replicas, counts});
  if (space.replicas.empty()) values.push_back({Field::stages, ""});
  return values;
}

/// Layers can't be stated. The search picks them where users do not say what to recompute.
FieldValue searched_recompute(const Plan& plan) {
  const bool layers = std::ranges::any_of(plan.stages, [](const Stage& s) { return s.recompute.mode == Recompute::Mode::some; });
  return layers ? FieldValue{Field::recompute, ""} : recompute_value(plan);
}

std::vector<Restriction> restrictions_of(const SearchSpace& space) {
  const bool staged = !space.stage_counts.empty() || !space.replicas.empty();
  return {{!space.cuts.empty(), [](SearchSpace& s) { s.cuts.clear(); }, [](const Plan& plan) { return Values{cuts_value(plan)}; }},
          {staged,
           [](SearchSpace& s) {
             s.stage_counts.clear();
             s.cuts.clear();
             s.replicas.clear();
           },
           [&space](const Plan& plan) { return stages_values(plan, space); }},
          {!space.cut_places.empty(), [](SearchSpace& s) { s.cut_places.clear(); },
           [](const Plan&) {
             return Values{{Field::cut_at, ""}};
           }},
          {!space.virtual_counts.empty(), [](SearchSpace& s) { s.virtual_counts.clear(); },
           [](const Plan& plan) { return Values{virtual_stages_value(plan)}; }},
          {!space.microbatch_counts.empty(), [](SearchSpace& s) { s.microbatch_counts.clear(); },
           [](const Plan& plan) { return Values{microbatches_value(plan.num_microbatches())}; }},
          {!space.schedules.empty(), [](SearchSpace& s) { s.schedules.clear(); },
           [](const Plan& plan) {
             return Values{{Field::schedule, plan.schedule}};
           }},
          {!space.recompute.empty(), [](SearchSpace& s) { s.recompute.clear(); },
           [](const Plan& plan) { return Values{searched_recompute(plan)}; }}};
}

/// Returns the un-pipelined step, with which a question about devices begins.
Plan one_stage(const SearchSpace& space, const CostModel& cost) {
  PlanOptions options;
  options.devices = {space.devices.front()};
  options.batch = space.batch;
  options.layers = cost.layers();
  options.precision = cost.profile().precision;
  options.stages = 1;
  const auto [fewest, most] = allowed_counts(space.samples, space.batch);
  options.microbatches = space.microbatch_counts.empty() ? std::max(fewest, std::min(most, 64)) : space.microbatch_counts.back();
  return make_plan(options);
}

std::int64_t cap_of(const SearchSpace& space, const std::string& device) {
  const auto index = as_index(std::ranges::find(space.devices, device) - space.devices.begin());
  return index < space.memory_bytes.size() ? space.memory_bytes[index] : space.whole_machine_memory_bytes;
}

class ChoicesThatFit {
 public:
  ChoicesThatFit(const SearchSpace& space, const SearchResult& failed, const Profile& profile, const SearchWith& search_with)
      : space_(space), profile_(profile), search_with_(search_with) {
    answer_.excess = {failed.smallest_excess_bytes, failed.smallest_excess_device, cap_of(space, failed.smallest_excess_device)};
    answer_.nearest = answer_.excess;
  }

  FitAnswer answer() {
    leave_out_restrictions();
    if (answer_.changes.empty()) {
      add_smaller_batch();
      raise_caps();
      if (answer_.excess.bytes > 0) add_devices();
    }
    return std::move(answer_);
  }

 private:
  void leave_out_restrictions() {
    std::vector<Restriction> restrictions = restrictions_of(space_);
    std::erase_if(restrictions, [](const Restriction& restriction) { return !restriction.set; });
    std::vector<const Restriction*> all;
    for (const Restriction& restriction : restrictions) {
      leave_out({&restriction});
      all.push_back(&restriction);
    }
    if (answer_.changes.empty() && all.size() > 1) leave_out(all);
    std::ranges::stable_sort(answer_.changes, {}, [](const FittingChange& change) { return change.prediction.step_s; });
    answer_.complete = !answer_.changes.empty() || restrictions.empty();  // searches are bounded, restrictions not left out by twos
  }

  void leave_out(const std::vector<const Restriction*>& released) {
    SearchSpace wider = space_;
    for (const Restriction* restriction : released) restriction->release(wider);
    const SearchResult found = quick_search(wider, profile_);
    if (found.ranked.empty()) return;
    const Plan& plan = found.ranked.front().plan;
    Values options;
    for (const Restriction* restriction : released) options = with_values(std::move(options), restriction->values(plan));
    // Where stages are left out, their cuts are left out, too.
    const auto restates_cuts = [](const FieldValue& value) { return value.field == Field::cuts && !value.value.empty(); };
    if (released.size() > 1) std::erase_if(options, restates_cuts);
    add_change(std::move(options), static_cast<int>(released.size()));
  }

  /// Adds the change if a search with the options finds a plan.
  bool add_change(Values options, int changes) {
    SearchResult found = search_with_(options);
    if (found.ranked.empty()) return false;
    Candidate& best = found.ranked.front();
    const auto same = [&](const FittingChange& change) { return change.plan == best.plan; };
    if (std::ranges::any_of(answer_.changes, same)) return true;  // it is enough to leave out less
    answer_.changes.push_back({std::move(options), changes, std::move(best.plan), std::move(best.prediction)});
    return true;
  }

  /// Tries halves and their halves, the smallest first: where that does not fit, none does.
  void add_smaller_batch() {
    int least = std::max(space_.samples.least, space_.replicas.empty() ? 1 : std::ranges::max(space_.replicas));
    if (!space_.microbatch_counts.empty()) least = std::max(least, std::ranges::max(space_.microbatch_counts));
    std::vector<int> batches;
    for (int batch = space_.batch / 2; batch >= least; batch /= 2) batches.push_back(batch);
    const auto fits = [&](int batch) { return !search_with_({batch_value(batch)}).ranked.empty(); };
    if (batches.empty() || !fits(batches.back())) return;
    const auto largest = std::partition_point(batches.begin(), batches.end() - 1, [&](int batch) { return !fits(batch); });
    add_change({batch_value(*largest)}, 1);
  }

  static FieldValue batch_value(int batch) { return {Field::batch, std::to_string(batch)}; }

  /// Raises all caps by equally many bytes: first by the excess of the nearest plan, or an eighth of a cap where that is not known.
  void raise_caps() {
    if (std::ranges::none_of(space_.memory_bytes, [](std::int64_t cap) { return cap > 0; })) return;
    std::int64_t more = answer_.excess.bytes > 0 ? answer_.excess.bytes : std::ranges::max(space_.memory_bytes) / 8;
    for (int tried = 0; tried < kMostCapsTried; ++tried) {
      std::vector<std::int64_t> needed = space_.memory_bytes;
      for (std::int64_t& cap : needed) cap += cap > 0 ? more : 0;
      const Values options{raised_caps(space_.devices, space_.memory_bytes, needed)};
      const SearchResult found = search_with_(options);
      if (!found.ranked.empty()) {
        answer_.raised = options;
        return;
      }
      more += std::max(more / 4, found.smallest_excess_bytes);
    }
  }

  /// Where files name no devices, --stages asks for them. Else the devices have to be there first.
  void add_devices() {
    const CostModel cost(profile_, space_.variants.empty() ? ExecutionVariant{} : space_.variants.front());
    DevicesNeeded needed = devices_needed(one_stage(space_, cost), answer_.excess.device, answer_.excess.cap_bytes, kMostCounted, cost);
    if (needed.count == 0) return;
    if (!space_.cuts.empty()) needed.options.push_back({Field::cuts, ""});
    if (!space_.cut_places.empty()) needed.options.push_back({Field::cut_at, ""});
    if (!space_.replicas.empty()) needed.options.push_back({Field::replicas, ""});
    if (!space_.virtual_counts.empty()) needed.options.push_back({Field::virtual_stages, ""});
    const bool other_schedule =
        !space_.schedules.empty() && std::ranges::find(space_.schedules, kDefaultSchedule) == space_.schedules.end();
    if (other_schedule) needed.options.push_back({Field::schedule, kDefaultSchedule});
    const Values options = with_values({{Field::stages, std::to_string(needed.count)}}, needed.options);
    if (!add_change(options, static_cast<int>(options.size()))) answer_.needed = std::move(needed);
  }

  const SearchSpace& space_;
  const Profile& profile_;
  const SearchWith& search_with_;
  FitAnswer answer_;
};

}  // namespace

SearchResult quick_search(SearchSpace space, const Profile& profile) {
  space.keep = 1;
  space.exact = true;  // no option names a plan with fused weight gradients
  space.look_beyond = false;
  space.most_actions = kMostActionsOfOne;
  space.improved = {};
  return if_possible([&] { return search_plans(space, profile); }).value_or(SearchResult{});
}

FitAnswer choices_that_fit(const SearchSpace& space, const SearchResult& failed, const Profile& profile, const SearchWith& search_with) {
  return ChoicesThatFit(space, failed, profile, search_with).answer();
}

}  // namespace mptune::planner
