#include "reports/cli/commands/plan_objective.h"

#include "tuner/worker/host/interrupt.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "planner/published/aceso.h"
#include "planner/published/closed_form.h"
#include "planner/schedule/schedule.h"
#include "planner/search/space/choices.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/units.h"
#include "profiler/trace/formats/operator_tables.h"
#include "reports/cli/commands/fit_errors.h"
#include "reports/cli/options/search_limit.h"

namespace mptune::reports {
namespace {

constexpr const char* kNoChangeTried = "raise --memory";  // used where no other options are tried
constexpr int kLinkPoints = 11;                           // 1 MiB to 1 GiB, as the published curves

void check_choices(const SearchSpace& space) {
  const auto refuse = [](const std::string& what, const std::string& option) {
    throw Error("a closed form knows straight 1f1b pipelines only, not " + what, option, "leave it out, or use --objective simulate");
  };
  if (!space.schedules.empty() && space.schedules != std::vector<std::string>{kDefaultSchedule})
    refuse(space.schedules.front(), "--schedule");
  if (!space.replicas.empty()) refuse("replicas", "--replicas");
  if (!space.virtual_counts.empty() && space.virtual_counts != std::vector<int>{1}) refuse("several stages per device", "--virtual");
  if (!space.cuts.empty()) refuse("given cuts", "--cuts");
  if (!space.cut_places.empty()) refuse("cuts at modules", "--cut-at");
  if (!space.recompute.empty()) refuse("given recomputation", "--recompute");
}

planner::PartitionProblem straight_pipeline(const SearchSpace& space, int stages, int microbatches) {
  planner::PartitionProblem problem;
  for (int s = 0; s < stages; ++s) {
    problem.devices.push_back(space.devices[as_index(s)]);
    problem.stages.push_back({s});
    if (!space.memory_bytes.empty()) problem.memory_bytes.push_back(space.memory_bytes[as_index(s)]);
  }
  problem.microbatch_sizes = split_evenly(space.batch, microbatches);
  problem.schedule = kDefaultSchedule;
  problem.recompute_for_memory = true;
  return problem;
}

std::vector<int> stage_counts(const SearchSpace& space, const CostModel& cost) {
  if (!space.stage_counts.empty()) return space.stage_counts;
  std::vector<int> counts;
  for (int stages = 1; stages <= std::min(static_cast<int>(space.devices.size()), cost.layers()); ++stages) counts.push_back(stages);
  return counts;
}

[[noreturn]] void refuse_misfit(std::int64_t excess_bytes) {
  throw Error(excess_bytes > 0 ? "no plan fits: the nearest one needs " + format_bytes(excess_bytes) + " more" : "no plan fits", "--memory",
              kNoChangeTried, ExitCode::infeasible);
}

std::vector<LinkPoint> link_points(const Profile& profile) {
  if (profile.links.empty()) return {};
  const LinkCost& link = profile.links.front();
  if (!link.curve.empty()) return link.curve;
  std::vector<LinkPoint> points;
  for (int i = 0; i < kLinkPoints; ++i) {
    const std::int64_t bytes = std::int64_t{1} << (20 + i);
    points.push_back({bytes, link.latency_s + (link.bytes_per_second > 0 ? static_cast<double>(bytes) / link.bytes_per_second : 0)});
  }
  return points;
}

planner::AcesoProblem aceso_problem(const SearchSpace& space, const OperatorTables& tables, const Profile& profile) {
  planner::AcesoProblem problem;
  for (const auto& [samples, path] : profiler::operator_table_files(tables.prefix)) {
    const bool wanted = space.microbatch_counts.empty() || space.microbatch_counts.front() * samples == space.batch;
    if (!wanted) continue;
    profiler::TextInput input = profiler::open_text(path);
    problem.tables.push_back(planner::aceso_table(samples, profiler::read_operator_table(input, tables.model), tables.model.layers));
  }
  if (problem.tables.empty())
    throw Error("no operator table is of the micro-batches asked for", tables.prefix, "leave --microbatches and --split-size out");
  problem.links = link_points(profile);
  if (tables.model.bytes_per_weight == 4) problem.held_per_weight = planner::kHeldInSinglePrecision;
  problem.devices = static_cast<int>(space.devices.size());
  problem.batch = space.batch;
  problem.stop = SearchLimit::interrupted;
  if (!space.memory_bytes.empty()) problem.memory_bytes = *std::ranges::min_element(space.memory_bytes);
  return problem;
}

Plan plan_of(const planner::AcesoPlan& found, const SearchSpace& space) {
  Plan plan;
  plan.devices = space.devices;
  plan.microbatch_sizes.assign(as_index(found.microbatches), found.samples);
  for (std::size_t s = 0; s < found.stages.size(); ++s) {
    const planner::AcesoStage& stage = found.stages[s];
    Recompute recompute;
    if (!stage.recomputed.empty()) recompute = {Recompute::Mode::some, stage.recomputed, {}};
    plan.stages.push_back({stage.first, stage.last, {static_cast<int>(s)}, recompute});
  }
  planner::make_schedule(plan, kDefaultSchedule);
  return plan;
}

class ClosedFormObjective : public planner::Objective {
 public:
  ClosedFormObjective(const SearchSpace& space, const CostModel& cost) : space_(space), cost_(cost) {}

  [[nodiscard]] std::string_view name() const override { return "closed-form"; }

  [[nodiscard]] planner::ObjectiveResult minimize() const override {
    std::vector<std::int64_t> caps = space_.memory_bytes;
    caps.resize(space_.devices.size());
    const planner::Choices choices(space_, cost_, caps);
    std::int64_t best = planner::PartitionResult::kNoPlan;
    std::int64_t excess = planner::PartitionResult::kNoPlan;
    Plan plan;
    for (const int stages : stage_counts(space_, cost_)) {
      for (const int microbatches : choices.counts()) {
        planner::PartitionProblem problem = straight_pipeline(space_, stages, microbatches);
        problem.longest_ns = best == planner::PartitionResult::kNoPlan ? best : best - 1;
        const planner::PartitionResult result = planner::closed_form_partition(problem, cost_);
        if (result.smallest_excess_bytes > 0) excess = std::min(excess, result.smallest_excess_bytes);
        if (!result.best.empty()) {
          best = result.best.front().step_ns;
          plan = result.best.front().plan;
        }
      }
    }
    if (best == planner::PartitionResult::kNoPlan) refuse_misfit(excess == planner::PartitionResult::kNoPlan ? 0 : excess);
    plan.options.precision = cost_.profile().precision;
    const double step_s = static_cast<double>(best) / 1e9;
    return {plan, step_s, step_s, 0, cost_.peak_bytes(plan)};
  }

 private:
  const SearchSpace& space_;
  const CostModel& cost_;
};

class AcesoObjective : public planner::Objective {
 public:
  AcesoObjective(const SearchSpace& space, const OperatorTables& tables, const Profile& profile)
      : space_(space), problem_(aceso_problem(space, tables, profile)) {}

  [[nodiscard]] std::string_view name() const override { return "aceso"; }

  [[nodiscard]] planner::ObjectiveResult minimize() const override {
    const planner::AcesoResult result = planner::plan_aceso(problem_);
    if (result.best.empty() && !result.complete)
      throw Error("no plan that fits was found within the limit of the work", "--memory", kNoChangeTried, ExitCode::infeasible);
    if (result.best.empty()) refuse_misfit(0);
    const planner::AcesoPlan& best = result.best.front();
    std::vector<std::int64_t> peaks;
    for (const planner::AcesoStage& stage : best.stages) peaks.push_back(stage.peak_bytes());
    return {plan_of(best, space_), static_cast<double>(best.step_ns) / 1e9, static_cast<double>(result.lower_bound_ns) / 1e9, result.gap(),
            std::move(peaks)};
  }

 private:
  const SearchSpace& space_;
  planner::AcesoProblem problem_;
};

/// Returns a cap with which `fits` holds: it doubles the cap of the space again and again, then searches between the last two; 0: none was
/// found.
std::int64_t cap_that_fits(const SearchSpace& space, const std::function<bool(std::int64_t)>& fits) {
  constexpr int kDoublings = 12;
  constexpr int kHalvings = 4;
  const auto as_stated = [](std::int64_t bytes) { return parse_bytes(size_option(bytes), "--memory"); };
  std::int64_t few = std::ranges::max(space.memory_bytes);
  std::int64_t enough = 0;
  for (int i = 0; i < kDoublings && enough == 0 && !SearchLimit::interrupted(); ++i) {
    const std::int64_t tried = as_stated(2 * few);
    (fits(tried) ? enough : few) = tried;
  }
  for (int i = 0; i < kHalvings && enough > 0; ++i) {
    const std::int64_t tried = as_stated(few + (enough - few) / 2);
    (fits(tried) ? enough : few) = tried;
  }
  return enough;
}

}  // namespace

std::unique_ptr<planner::Objective> pipeline_objective(const std::string& name, const SearchSpace& space, const OperatorTables& tables,
                                                       const CostModel& cost) {
  check_choices(space);
  if (name == "closed-form") return std::make_unique<ClosedFormObjective>(space, cost);
  if (name == "aceso") return std::make_unique<AcesoObjective>(space, tables, cost.profile());
  throw Error("objective " + name + " searches no pipelines", "--objective", "use closed-form or aceso");
}

planner::ObjectiveResult minimized(const std::string& name, const SearchSpace& space, const OperatorTables& tables,
                                   const Profile& profile) {
  const CostModel cost(profile);
  try {
    return pipeline_objective(name, space, tables, cost)->minimize();
  } catch (const Error& error) {
    const auto refuse_interrupted = [] {
      if (SearchLimit::interrupted()) throw tuner::interrupt_error("mptune plan", "no plan was found yet; start the command again");
    };
    refuse_interrupted();
    if (error.code() != ExitCode::infeasible || space.memory_bytes.empty()) throw;
    const std::int64_t enough = cap_that_fits(space, [&](std::int64_t bytes) {
      SearchSpace wider = space;
      wider.memory_bytes.assign(space.devices.size(), bytes);
      try {
        (void)pipeline_objective(name, wider, tables, cost)->minimize();
        return true;
      } catch (const Error& wider_error) {
        if (wider_error.code() != ExitCode::infeasible) throw;
        return false;
      }
    });
    refuse_interrupted();
    throw with_remedy(error, enough > 0 ? "it fits with --memory " + size_option(enough) : "nothing that can be changed here fits");
  }
}

}  // namespace mptune::reports
