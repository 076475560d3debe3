#include "planner/topology/topology_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <utility>

#include "planner/cost/variants.h"
#include "planner/partition/partition.h"
#include "planner/plan/plan_error.h"
#include "planner/recompute/least_recompute.h"
#include "planner/schedule/schedule_info.h"
#include "planner/simulate/operations.h"
#include "planner/simulate/schedule_costs.h"
#include "planner/topology/pipeline_cost.h"
#include "planner/topology/topology_profile.h"
#include "planner/topology/uniform_shapes.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/profile_tensors.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kUnlimitedNs = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMostPipelineCosts = 64;
// Partial plans that one search of cuts may visit at first, and their growth with each further search.
constexpr std::int64_t kFirstCutNodes = 4'000;
constexpr std::int64_t kCutNodesGrowth = 16;
constexpr std::int64_t kMostCutNodes = std::int64_t{1} << 40;
constexpr std::int64_t kCutNodesPerAction = 2;

// A shape, and the schedule that is searched for it next.
struct ShapeBound {
  std::int64_t ns = 0;  // no plan takes less
  int order = 0;        // among the shapes as listed
  int schedule = -1;    // index into the space's schedules; -1: all, bounded by the work alone
  std::int64_t nodes = 0;
  bool operator>(const ShapeBound& other) const { return std::tie(ns, order, schedule) > std::tie(other.ns, other.order, other.schedule); }
};

Profile with_medians(Profile profile) {
  const auto reduce = [](Samples& samples) {
    if (!samples.empty()) samples = exactly(median(samples));
  };
  for (DeviceClass& device_class : profile.classes)
    for (LayerCosts& layer : device_class.layers)
      for (LayerCost& cost : layer.by_samples)
        for (Samples* samples : {&cost.forward, &cost.backward, &cost.backward_input, &cost.backward_weight}) reduce(*samples);
  return profile;
}

class UniformSearch {
 public:
  UniformSearch(const UniformSpace& space, const Topology& topology, const Profile& profile)
      : space_(space),
        topology_(capped(topology, space.memory_bytes)),
        profile_(with_medians(profile)),
        backbone_(backbone(profile_)),
        chain_(backbone_ ? *backbone_ : as_chain(profile_)),
        cost_(on_topology(profile_, topology_, space.where)) {
    for (const std::string& schedule : space.schedules) require_one_stage_each(schedule);
    list_shapes();
  }

  SearchResult search() {
    while (!queue_.empty() && !spent()) {
      const ShapeBound next = queue_.top();
      if (next.ns >= best_ns_) break;
      queue_.pop();
      next.schedule < 0 ? bound_pipeline(next) : search_cuts(next);
    }
    return result();
  }

 private:
  static Topology capped(Topology topology, std::int64_t bytes) {
    for (HostGroup& group : topology.groups) group.memory_bytes = bytes > 0 ? bytes : group.memory_bytes;
    return topology;
  }

  static void require_one_stage_each(const std::string& name) {
    const ScheduleInfo& schedule = schedule_info(name);
    const bool replicas = schedule.map == StageMap::any || schedule.map == StageMap::one_each;
    if (!replicas || schedule.least_virtual_stages > 1 || schedule.one_microbatch)
      throw PlanError("plans for a topology have one stage on each device and several micro-batches, which " + name + " does not",
                      "--schedule", "use 1f1b, gpipe, eager-1f1b, zb1p or zb2p");
  }

  [[nodiscard]] int most_stages() const {
    int cuts = 0;
    for (int layer = 1; layer < cost_.layers(); ++layer) cuts += cost_.may_cut(layer) ? 1 : 0;
    return cuts + 1;
  }

  void list_shapes() {
    shapes_ = uniform_shapes(space_, topology_.device_count(), most_stages());
    if (shapes_.empty())
      throw PlanError("no uniform plan of " + std::to_string(space_.batch) + " samples fits these choices on " + describe(topology_),
                      space_.where, "stages times replicas are at most the devices, and replicas times micro-batches divide the batch");
    for (int order = 0; order < static_cast<int>(shapes_.size()); ++order)
      queue_.push({work_bound_ns(shapes_[as_index(order)]), order, -1, 0});
  }

  // Returns a bound: all work over the stages, and in a chain also one micro-batch alone, on the fastest class, without copies.
  std::int64_t work_bound_ns(const UniformShape& shape) {
    const int samples = space_.batch / shape.replicas / shape.microbatches;
    const std::int64_t one = work_ns(samples);
    return std::max(backbone_ ? one : 0, one * shape.microbatches / shape.stages);
  }

  std::int64_t work_ns(int samples) {
    const auto known = work_ns_.find(samples);
    if (known != work_ns_.end()) return known->second;
    std::int64_t least = kUnlimitedNs;
    int seen = -1;
    for (int device = 0; device < static_cast<int>(cost_.profile().devices.size()); ++device) {
      const int device_class = cost_.profile().devices[as_index(device)].device_class;
      if (std::exchange(seen, device_class) == device_class) continue;
      std::int64_t sum = 0;
      for (int layer = 0; layer < cost_.layers(); ++layer) {
        const LayerTimes times = cost_.layer(device, layer, samples);
        sum += to_ns(times.forward_s) + std::min(to_ns(times.backward_s), to_ns(times.backward_input_s) + to_ns(times.backward_weight_s));
      }
      least = std::min(least, sum);
    }
    return work_ns_[samples] = least;
  }

  PipelineCost& pipeline_of(UniformShape shape) {
    shape.microbatches = 0;
    const auto key = std::tuple(shape.stages, shape.replicas, shape.placement);
    const auto known = pipelines_.find(key);
    if (known != pipelines_.end()) return *known->second;
    if (pipelines_.size() >= kMostPipelineCosts) pipelines_.clear();
    return *(pipelines_[key] = std::make_unique<PipelineCost>(chain_, topology_, shape, space_.where));
  }

  [[nodiscard]] std::vector<int> sizes_of(const UniformShape& shape) const {
    return std::vector<int>(as_index(shape.microbatches), space_.batch / shape.replicas / shape.microbatches);
  }

  [[nodiscard]] static std::vector<std::vector<int>> one_device_each(const UniformShape& shape) {
    std::vector<std::vector<int>> stages(as_index(shape.stages));
    for (int s = 0; s < shape.stages; ++s) stages[as_index(s)] = {s};
    return stages;
  }

  // Prices of single layers are rounded to whole nanoseconds, those of a sum only once.
  [[nodiscard]] std::int64_t less_rounding(std::int64_t ns) const { return std::max<std::int64_t>(0, ns - cost_.layers() - 2); }

  [[nodiscard]] std::int64_t actions_of(const UniformShape& shape) const { return std::int64_t{2} * shape.stages * shape.microbatches; }

  void bound_pipeline(const ShapeBound& at) {
    const UniformShape& shape = shapes_[as_index(at.order)];
    if (!parameters_fit(shape)) return;
    PipelineCost& pipeline = pipeline_of(shape);
    const std::int64_t queued_ns = pipeline.queued_ns(shape.microbatches, sizes_of(shape).front());
    bool whole = false;  // a schedule with whole backwards was bounded
    for (int schedule = 0; schedule < static_cast<int>(space_.schedules.size()); ++schedule) {
      const bool splits = splits_backward(schedule);
      if (!splits && shape.microbatches == 1 && std::exchange(whole, true)) continue;  // it has the same rows as the first one
      const FamilyBound::Bound bound = pipeline.bound.of(one_device_each(shape), sizes_of(shape), splits);
      const std::int64_t ns = backbone_ ? std::max({at.ns, less_rounding(bound.step_ns), queued_ns}) : at.ns;
      worked_ += actions_of(shape);
      if (ns < best_ns_) try_cuts(shape, pipeline, bound.cuts, schedule);
      queue_.push({ns, at.order, schedule, kFirstCutNodes});
    }
  }

  [[nodiscard]] bool splits_backward(int schedule) const { return !schedule_info(space_.schedules[as_index(schedule)]).whole_backward; }

  // False where parameters, their gradients and the optimizer's state alone exceed the largest cap on some stage, whatever is recomputed.
  [[nodiscard]] bool parameters_fit(const UniformShape& shape) {
    std::int64_t cap = 0;
    for (const HostGroup& group : topology_.groups) {
      if (group.memory_bytes == 0) return true;
      cap = std::max(cap, group.memory_bytes);
    }
    const auto all = static_cast<double>(cost_.parameters_bytes(0, cost_.layers()));
    const double least = all / shape.stages * (2 + cost_.profile().optimizer_state_factor);
    if (least <= static_cast<double>(cap)) return true;
    note_excess(static_cast<std::int64_t>(least) - cap, cost_.profile().devices.front().name);
    return false;
  }

  [[nodiscard]] std::vector<std::int64_t> caps_of(const PipelineCost& pipeline) const {
    std::vector<std::int64_t> caps;
    for (const ProfileDevice& device : pipeline.cost.profile().devices) caps.push_back(device.memory_bytes);
    return caps;
  }

  [[nodiscard]] Plan plan_of(const UniformShape& shape, const PipelineCost& pipeline, const std::vector<int>& cuts) const {
    Plan plan;
    plan.devices = pipeline.names;
    plan.microbatch_sizes = sizes_of(shape);
    for (int s = 0; s < shape.stages; ++s)
      plan.stages.push_back({s == 0 ? 0 : cuts[as_index(s) - 1], s + 1 == shape.stages ? cost_.layers() : cuts[as_index(s)], {s}, {}});
    return plan;
  }

  // Returns the step of the one way to cut the shape, without recomputation.
  std::int64_t only_step_ns(const UniformShape& shape, const PipelineCost& pipeline, int schedule) {
    Plan plan = plan_of(shape, pipeline, {});
    schedule_plan(plan, space_.schedules[as_index(schedule)], pipeline.cost);
    return less_rounding(std::llround(predict(plan, pipeline.cost).step_s * 1e9));
  }

  void try_cuts(const UniformShape& shape, PipelineCost& pipeline, const std::vector<int>& cuts, int schedule) {
    Plan plan = plan_of(shape, pipeline, cuts);
    schedule_plan(plan, space_.schedules[as_index(schedule)], pipeline.cost, caps_of(pipeline));
    consider(shape, pipeline, std::move(plan));
  }

  // Simulates a plan of one pipeline, and simulates it on all devices if it is not slower than the plans that are kept. Recomputation makes
  // no plan faster. Choosing it costs many simulations, so it is done only for what may be the best.
  void consider(const UniformShape& shape, PipelineCost& pipeline, Plan plan) {
    plan.options = options_in(pipeline.cost.variant(), pipeline.cost.profile().precision, plan.devices);
    const std::vector<std::int64_t> caps = caps_of(pipeline);
    const Prediction alone = predicted(shape, pipeline, plan);
    if (less_rounding(ns_of(alone)) >= std::min(worst_kept_ns(), slowest_listed_ns())) return;
    if (excess(alone.peak_bytes, caps) <= 0) return evaluate(shape, pipeline, plan);
    if (less_rounding(ns_of(alone)) < best_ns_) evaluate(shape, pipeline, recomputing(std::move(plan), pipeline, caps));
  }

  Prediction predicted(const UniformShape& shape, const PipelineCost& pipeline, const Plan& plan) {
    ++simulated_;
    worked_ += actions_of(shape);
    return predict(plan, pipeline.cost);
  }

  Plan recomputing(Plan plan, const PipelineCost& pipeline, const std::vector<std::int64_t>& caps) {
    for (Stage& stage : plan.stages) stage.recompute = {};
    LeastRecompute least = with_least_recompute(std::move(plan), caps, pipeline.cost, Effort::quick);
    worked_ += least.worked;
    return std::move(least.plan);
  }

  static std::int64_t excess(const std::vector<std::int64_t>& peaks, const std::vector<std::int64_t>& caps) {
    std::int64_t most = 0;
    for (std::size_t d = 0; d < peaks.size(); ++d)
      if (caps[d] > 0) most = std::max(most, peaks[d] - caps[d]);
    return most;
  }

  void evaluate(const UniformShape& shape, const PipelineCost& pipeline, const Plan& plan) {
    Candidate candidate;
    candidate.plan = replicated(plan, shape.replicas, names_of(pipeline.devices));
    worked_ += actions_of(shape) * shape.replicas;
    candidate.prediction = predict(candidate.plan, cost_);
    if (!fits(candidate)) return;
    if (ns_of(candidate.prediction) < best_ns_) {
      best_ns_ = ns_of(candidate.prediction);
      if (space_.improved) space_.improved(candidate);
    }
    keep(std::move(candidate));
  }

  [[nodiscard]] std::vector<std::string> names_of(const std::vector<std::vector<int>>& devices) const {
    std::vector<std::string> names;
    for (std::size_t s = 0; s < devices.front().size(); ++s)
      for (const std::vector<int>& pipeline : devices) names.push_back(cost_.profile().devices[as_index(pipeline[s])].name);
    return names;
  }

  bool fits(const Candidate& candidate) {
    const std::vector<int> indices = cost_.device_indices(candidate.plan.devices);
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const ProfileDevice& device = cost_.profile().devices[as_index(indices[d])];
      const std::int64_t over = device.memory_bytes > 0 ? candidate.prediction.peak_bytes[d] - device.memory_bytes : 0;
      if (over <= 0) continue;
      note_excess(over, device.name);
      return false;
    }
    return true;
  }

  void note_excess(std::int64_t bytes, const std::string& device) {
    if (result_.smallest_excess_bytes > 0 && result_.smallest_excess_bytes <= bytes) return;
    result_.smallest_excess_bytes = bytes;
    result_.smallest_excess_device = device;
  }

  static std::int64_t ns_of(const Prediction& prediction) { return std::llround(prediction.step_s * 1e9); }
  static std::int64_t step_ns(const Candidate& candidate) { return ns_of(candidate.prediction); }

  // Plans far from the best are no alternatives to it.
  [[nodiscard]] std::int64_t slowest_listed_ns() const { return best_ns_ == kUnlimitedNs ? kUnlimitedNs : best_ns_ + best_ns_ / 4; }

  [[nodiscard]] std::int64_t worst_kept_ns() const {
    return static_cast<int>(kept_.size()) < space_.keep ? kUnlimitedNs : step_ns(kept_.back());
  }

  // Among plans of the same shape and schedule, keeps the fastest.
  void keep(Candidate candidate) {
    const auto alike = [&](const Candidate& other) {
      return other.plan.devices == candidate.plan.devices && other.plan.schedule == candidate.plan.schedule &&
             other.plan.microbatch_sizes == candidate.plan.microbatch_sizes && other.plan.num_stages() == candidate.plan.num_stages();
    };
    const auto known = std::ranges::find_if(kept_, alike);
    if (known != kept_.end() && step_ns(*known) <= step_ns(candidate)) return;
    if (known != kept_.end()) kept_.erase(known);
    kept_.insert(std::ranges::upper_bound(kept_, step_ns(candidate), {}, step_ns), std::move(candidate));
    if (static_cast<int>(kept_.size()) > space_.keep) kept_.pop_back();
  }

  // Searches without caps, as no recomputation makes a plan faster. The bound then holds for all plans.
  void search_cuts(const ShapeBound& at) {
    const UniformShape& shape = shapes_[as_index(at.order)];
    PipelineCost& pipeline = pipeline_of(shape);
    if (!backbone_) return finish(at.ns);
    if (shape.stages == 1) return finish(std::max(at.ns, only_step_ns(shape, pipeline, at.schedule)));
    PartitionProblem problem;
    problem.devices = pipeline.names;
    problem.stages = one_device_each(shape);
    problem.microbatch_sizes = sizes_of(shape);
    problem.schedule = space_.schedules[as_index(at.schedule)];
    problem.longest_ns = best_ns_ == kUnlimitedNs ? best_ns_ : best_ns_ + cost_.layers() + 2;
    problem.most_nodes = at.nodes;
    problem.stop = [this] { return stopped(); };
    const PartitionResult found = run(shape, pipeline, problem);
    for (const PartitionedPlan& plan : found.best) consider(shape, pipeline, plan.plan);
    const std::int64_t ns = std::max(at.ns, less_rounding(std::min(found.lower_bound_ns, problem.longest_ns)));
    if (found.complete) {
      try_recomputed(shape, pipeline, problem);
      return finish(ns);
    }
    queue_.push({ns, at.order, at.schedule, std::min(at.nodes * kCutNodesGrowth, kMostCutNodes)});
  }

  // Searches with caps: where the fastest cuts do not fit, other cuts may.
  void try_recomputed(const UniformShape& shape, PipelineCost& pipeline, PartitionProblem& problem) {
    problem.memory_bytes = caps_of(pipeline);
    if (std::ranges::all_of(problem.memory_bytes, [](std::int64_t cap) { return cap == 0; })) return;
    problem.recompute_for_memory = true;
    problem.most_nodes = kFirstCutNodes * kCutNodesGrowth;
    const PartitionResult found = run(shape, pipeline, problem);
    for (const PartitionedPlan& plan : found.best) consider(shape, pipeline, plan.plan);
  }

  PartitionResult run(const UniformShape& shape, PipelineCost& pipeline, const PartitionProblem& problem) {
    PartitionResult found = partition(problem, pipeline.cost);
    simulated_ += found.simulated;
    worked_ += found.nodes / kCutNodesPerAction + (found.simulated + 3) * actions_of(shape);
    return found;
  }

  void finish(std::int64_t ns) { finished_ns_ = std::min(finished_ns_, ns); }

  bool stopped() {
    stopped_ = stopped_ || (space_.stop && space_.stop());
    return stopped_;
  }
  bool spent() { return worked_ > space_.most_actions || stopped(); }

  SearchResult result() {
    std::int64_t lower_ns = std::min(finished_ns_, best_ns_);
    if (!queue_.empty()) lower_ns = std::min(lower_ns, queue_.top().ns);
    std::erase_if(kept_, [this](const Candidate& candidate) { return step_ns(candidate) > slowest_listed_ns(); });
    result_.ranked = std::move(kept_);
    result_.simulated = simulated_;
    result_.worked = worked_;
    result_.lower_bound_s = lower_ns == kUnlimitedNs ? 0 : static_cast<double>(lower_ns) * 1e-9;
    result_.complete = !result_.ranked.empty() && lower_ns == best_ns_;
    return std::move(result_);
  }

  const UniformSpace& space_;
  const Topology topology_;
  const Profile profile_;
  const std::optional<Profile> backbone_;  // nullopt where branches begin: chains then bound no plan
  const Profile chain_;
  const CostModel cost_;  // of all devices
  std::vector<UniformShape> shapes_;
  std::priority_queue<ShapeBound, std::vector<ShapeBound>, std::greater<>> queue_;
  std::map<std::tuple<int, int, Placement>, std::unique_ptr<PipelineCost>> pipelines_;
  std::map<int, std::int64_t> work_ns_;  // by samples
  std::vector<Candidate> kept_;          // fastest first
  std::int64_t best_ns_ = kUnlimitedNs;
  std::int64_t finished_ns_ = kUnlimitedNs;  // least bound of the shapes that were searched to the end
  std::int64_t worked_ = 0;
  std::int64_t simulated_ = 0;
  bool stopped_ = false;
  SearchResult result_;
};

}  // namespace

SearchResult search_uniform(const UniformSpace& space, const Topology& topology, const Profile& profile) {
  return UniformSearch(space, topology, profile).search();
}

}  // namespace mptune::planner
