#include "planner/advise/recorded_run.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "planner/plan/plan_error.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/simulate/operations.h"
#include "profiler/base/index.h"
#include "profiler/trace/analyze/step_work.h"

namespace mptune::planner {
namespace {

using profiler::StepWork;
using profiler::Work;

double recorded_seconds(Nanoseconds time) {
  return static_cast<double>(time.count()) * 1e-9;
}

bool is_action(EventKind kind) {
  return kind == EventKind::forward || kind == EventKind::backward || kind == EventKind::backward_input ||
         kind == EventKind::backward_weight || kind == EventKind::recompute;
}

bool is_of_a_stage(const Work& work) {
  return work.tag.stage >= 0 && work.tag.microbatch >= 0 && is_action(work.kind);
}

ActionKind action_kind(EventKind kind) {
  if (kind == EventKind::forward) return ActionKind::forward;
  if (kind == EventKind::backward_input) return ActionKind::backward_input;
  return kind == EventKind::backward_weight ? ActionKind::backward_weight : ActionKind::backward;
}

// What a stage's micro-batch took in one step.
struct Times {
  double forward_s = 0, backward_s = 0, input_s = 0, weight_s = 0, recompute_s = 0;
  [[nodiscard]] double whole_s() const { return backward_s + input_s + weight_s + recompute_s; }
  [[nodiscard]] bool complete() const { return forward_s > 0 && whole_s() > 0; }
};

class Reader {
 public:
  Reader(const Trace& trace, int parts, int samples, const std::string& where) : trace_(trace), parts_(parts), samples_(samples) {
    const std::vector<StepWork> steps = profiler::step_works(trace);
    for (const StepWork& step : steps)
      for (const Work& work : step.works)
        if (is_of_a_stage(work)) {
          int& first = replica_of_.try_emplace({work.tag.stage, work.tag.microbatch}, work.tag.replica).first->second;
          first = std::min(first, work.tag.replica);
        }
    for (const StepWork& step : steps) add_step(step);
    require_whole(where);
  }

  RecordedRun run() {
    add_devices();
    for (int stage = 0; stage < stages_; ++stage) add_stage(stage);
    add_rows();
    run_.assumed.push_back("times of an action in proportion to its samples and to its part of a recorded stage, on whatever device");
    if (recomputes_) run_.assumed.emplace_back("recomputation that is part of the backward, after the gradient's arrival");
    if (copies_s_.empty()) run_.assumed.emplace_back("copies that take no time: the trace has none");
    return std::move(run_);
  }

 private:
  using Key = std::tuple<int, int, int>;  // stage, step, micro-batch

  void add_step(const StepWork& step) {
    const int number = static_cast<int>(run_.step_s.size());
    bool any = false;
    for (const Work& work : step.works) {
      if (work.kind == EventKind::copy && work.copy >= 0 && trace_.copies[as_index(work.copy)].destination >= 0)
        copies_s_.push_back(recorded_seconds(work.end - work.start));
      if (!is_of_a_stage(work) || work.tag.replica != replica_of_.at({work.tag.stage, work.tag.microbatch})) continue;
      any = true;
      Times& times = times_[{work.tag.stage, number, work.tag.microbatch}];
      const double took = recorded_seconds(work.end - work.start);
      if (work.kind == EventKind::forward) times.forward_s += took;
      if (work.kind == EventKind::backward) times.backward_s += took;
      if (work.kind == EventKind::recompute) times.recompute_s += took;
      if (work.kind == EventKind::backward_input) times.input_s += took;
      if (work.kind == EventKind::backward_weight) times.weight_s += took;
      stages_ = std::max(stages_, work.tag.stage + 1);
      microbatches_ = std::max(microbatches_, work.tag.microbatch + 1);
      device_of_.emplace(work.tag.stage, work.device);
      devices_of_[work.tag.stage].insert(work.device);
      if (number == 0 && work.kind != EventKind::recompute) add_action(work);
    }
    if (any) run_.step_s.push_back(recorded_seconds(step.window.end - step.window.start));
  }

  // Actions of the first step in the order of their starts; one that is recorded in pieces counts once.
  void add_action(const Work& work) {
    const Action action{work.tag.stage, action_kind(work.kind), work.tag.microbatch};
    if (seen_.insert({action.stage, static_cast<int>(action.kind), action.microbatch}).second)
      rows_[work.device].emplace_back(work.start, action);
  }

  void require_whole(const std::string& where) const {
    if (stages_ == 0)
      throw PlanError("the trace does not say which stage and micro-batch its work is of", where,
                      "give a recording of mptune profile, a pipeline timeline, or a job's ranges of stages");
    for (const auto& [stage, devices] : devices_of_)
      if (devices.size() > 1)
        throw PlanError("stage " + std::to_string(stage) + " runs on several devices, which share its micro-batches", where,
                        "give a recording without replicas, or of equal pipelines side by side");
    for (int stage = 0; stage < stages_; ++stage)
      for (int i = 0; i < microbatches_; ++i)
        if (const auto found = times_.find({stage, 0, i}); found == times_.end() || !found->second.complete())
          throw PlanError("the trace lacks a forward or a backward of micro-batch " + std::to_string(i) + " of stage " +
                              std::to_string(stage) + " in its first step",
                          where, "give the recordings of all ranks and whole steps");
  }

  void add_devices() {
    DeviceClass& device_class = run_.profile.classes.emplace_back();
    device_class.name = "recorded";
    std::map<int, int> index;
    for (int stage = 0; stage < stages_; ++stage) {
      const int device = device_of_.at(stage);
      if (!index.emplace(device, static_cast<int>(index.size())).second) continue;
      run_.plan.devices.push_back(trace_.devices[as_index(device)].name);
      run_.profile.devices.push_back({run_.plan.devices.back(), 0, 0});
    }
    place_ = std::move(index);
    const double copy_s = copies_s_.empty() ? 0 : median(copies_s_) / samples_;
    for (int from = 0; from < static_cast<int>(place_.size()); ++from)
      for (int to = 0; to < static_cast<int>(place_.size()); ++to)
        if (from != to) run_.profile.links.push_back({from, to, 0, copy_s > 0 ? 1 / copy_s : 0});
  }

  void add_stage(int stage) {
    std::vector<double> forward, backward, input, weight;
    for (const auto& [key, times] : times_) {
      if (std::get<0>(key) != stage || !times.complete()) continue;
      forward.push_back(times.forward_s);
      backward.push_back(times.whole_s());
      if (times.input_s > 0) input.push_back(times.input_s + times.recompute_s);
      recomputes_ = recomputes_ || times.recompute_s > 0;
      if (times.weight_s > 0) weight.push_back(times.weight_s);
    }
    const int batch = microbatches_ * samples_;
    for (int part = 0; part < parts_; ++part) {
      const int layer = static_cast<int>(run_.profile.layers.size());
      ProfileLayer& named = run_.profile.layers.emplace_back();
      named.name = "stage" + std::to_string(stage) + (parts_ > 1 ? "." + std::to_string(part) : "");
      named.parameters_bytes = 1;  // whatever they are: a stage has weight gradients
      // A byte a sample: links are priced in copies.
      if (layer > 0) run_.profile.edges.push_back({layer - 1, layer, 1, 0, true});
      LayerCosts& costs = run_.profile.classes.front().layers.emplace_back();
      for (const int size : std::set<int>{1, samples_, batch}) {
        const double share = static_cast<double>(size) / samples_ / parts_;
        LayerCost& cost = costs.by_samples.emplace_back();
        cost.samples = size;
        cost.output_bytes = size;
        cost.forward = exactly(median(forward) * share);
        cost.backward = exactly(median(backward) * share);
        if (!input.empty()) cost.backward_input = exactly(median(input) * share);
        if (!weight.empty()) cost.backward_weight = exactly(median(weight) * share);
      }
      run_.stage_of_layer.push_back(stage);
    }
    RecordedRun::Jitter& jitter = run_.jitter.emplace_back();
    for (const double time : forward) jitter.forward.push_back(time / median(forward));
    for (const double time : backward) jitter.backward.push_back(median(backward) > 0 ? time / median(backward) : 1);
  }

  void add_rows() {
    Plan& plan = run_.plan;
    plan.microbatch_sizes.assign(as_index(microbatches_), samples_);
    plan.schedule = "recorded";
    for (int stage = 0; stage < stages_; ++stage)
      plan.stages.push_back({stage * parts_, (stage + 1) * parts_, {place_.at(device_of_.at(stage))}, {}});
    plan.actions.resize(plan.devices.size());
    for (auto& [device, row] : rows_) {
      std::ranges::stable_sort(row, {}, [](const auto& entry) { return entry.first; });
      for (const auto& [start, action] : row) plan.actions[as_index(place_.at(device))].push_back(action);
    }
    run_.profile.batch = plan.global_batch_size();
  }

  const Trace& trace_;
  int parts_, samples_;
  int stages_ = 0, microbatches_ = 0;
  std::map<Key, Times> times_;
  std::map<std::pair<int, int>, int> replica_of_;  // by stage and micro-batch: the first
  std::map<int, int> device_of_;                   // of each stage
  std::map<int, std::set<int>> devices_of_;        // all devices of each stage
  std::map<int, int> place_;                       // of each device of the trace among the run's
  std::map<int, std::vector<std::pair<Nanoseconds, Action>>> rows_;
  std::set<std::tuple<int, int, int>> seen_;
  std::vector<double> copies_s_;
  bool recomputes_ = false;
  RecordedRun run_;
};

// The part of an action's time that is of one recorded stage.
struct Part {
  int recorded_stage = 0;
  double share = 0;
};

// By stage of the plan.
std::vector<std::vector<Part>> parts_of(const Plan& plan, const RecordedRun& run) {
  std::vector<std::vector<Part>> all;
  for (const Stage& stage : plan.stages) {
    std::map<int, double> seconds_of;
    double sum = 0;
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
      const LayerCost& cost = run.profile.classes.front().layers[as_index(layer)].by_samples.back();
      const double layer_s = median(cost.forward) + median(cost.backward);
      seconds_of[run.stage_of_layer[as_index(layer)]] += layer_s;
      sum += layer_s;
    }
    std::vector<Part>& parts = all.emplace_back();
    for (const auto& [recorded, part_s] : seconds_of) parts.push_back({recorded, sum > 0 ? part_s / sum : 0});
  }
  return all;
}

}  // namespace

RecordedRun recorded_run(const Trace& trace, int parts, int samples, const std::string& where) {
  RecordedRun run = Reader(trace, parts, samples, where).run();
  validate_schedule(run.plan, where);
  for (const ScheduleInfo& known : schedules()) {
    if (known.rows_from != RowsFrom::pattern || !missing_for(known, Layout(run.plan)).empty()) continue;
    Plan named = run.plan;
    make_schedule(named, known.name);
    if (named.actions == run.plan.actions) {
      run.plan.schedule = known.name;
      break;
    }
  }
  return run;
}

StepSpread spread_of_steps(const Plan& plan, const CostModel& cost, const RecordedRun& run) {
  const Operations operations = list_operations(plan, cost, cost.profile().runtime);
  // As many as take some seconds at most.
  constexpr std::size_t kWork = 40'000'000, kLeastDraws = 80, kMostDraws = 400;
  const std::size_t draws = std::clamp(kWork / std::max<std::size_t>(1, operations.list.size()), kLeastDraws, kMostDraws) / 40 * 40;
  const std::vector<std::vector<Part>> parts = parts_of(plan, run);
  std::mt19937 random(1);
  std::vector<double> steps_s;
  Operations drawn = operations;
  for (std::size_t draw = 0; draw < draws; ++draw) {
    for (std::size_t i = 0; i < drawn.list.size(); ++i) {
      Operation& operation = drawn.list[i];
      if (operation.kind == EventKind::copy || operation.phase != Phase::actions) continue;
      double factor = 0;
      for (const Part& part : parts[as_index(operation.stage)]) {
        const RecordedRun::Jitter& jitter = run.jitter[as_index(part.recorded_stage)];
        const std::vector<double>& ratios = operation.kind == EventKind::forward ? jitter.forward : jitter.backward;
        factor += part.share * ratios[random() % ratios.size()];
      }
      operation.alone_ns = std::llround(static_cast<double>(operations.list[i].alone_ns) * factor);
    }
    steps_s.push_back(static_cast<double>(time_operations(drawn).end_ns + drawn.step_ns) * 1e-9);
  }
  std::ranges::sort(steps_s);
  const std::size_t tail = draws / 40;  // 2.5 % at each end
  return {median(steps_s), {steps_s[tail - 1], steps_s[draws - tail]}};
}

}  // namespace mptune::planner
