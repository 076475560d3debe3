#include "reports/values/plan_changes.h"

#include <algorithm>
#include <functional>
#include <set>

#include "planner/plan/offload.h"
#include "planner/plan/threads.h"
#include "profiler/base/index.h"

namespace mptune::reports {
namespace {

template <typename T>
std::string listed(const std::vector<T>& parts, const char* separator, const std::function<std::string(const T&)>& word) {
  std::string text;
  for (const T& part : parts) text += (text.empty() ? "" : separator) + word(part);
  return text;
}

std::string layers_of(const Stage& stage) {
  const int last = stage.last_layer - 1;
  return std::to_string(stage.first_layer) + (last > stage.first_layer ? " to " + std::to_string(last) : "");
}

std::string devices_of(const Plan& plan, const Stage& stage) {
  return listed<int>(stage.devices, ",", [&](int device) { return plan.devices[as_index(device)]; });
}

std::string recompute_of(const Stage& stage) {
  const Recompute& recompute = stage.recompute;
  if (recompute.mode == Recompute::Mode::none) return "none";
  if (recompute.mode == Recompute::Mode::all) return "all";
  return "layers " + in_ranges(recompute.layers) +
         (recompute.microbatches.empty() ? "" : " of micro-batches " + in_ranges(recompute.microbatches));
}

std::string offload_of(const Stage& stage) {
  return stage.offload ? "yes" : "no";
}

std::string microbatches_of(const Plan& plan) {
  const auto [least, most] = std::ranges::minmax(plan.microbatch_sizes);
  return std::to_string(plan.num_microbatches()) + " of " + (least < most ? std::to_string(least) + " to " : "") + std::to_string(most);
}

std::string stages_of(const Plan& plan) {
  return std::to_string(plan.num_stages()) + (plan.num_stages() == 1 ? " stage of layers " : " stages of layers ") +
         listed<Stage>(plan.stages, " | ", layers_of);
}

void add_change(std::vector<std::string>& changes, const std::string& what, const std::string& a, const std::string& b) {
  if (a != b) changes.push_back(what + " " + a + " -> " + b);
}

/// Adds the cuts that moved, as `--cuts` counts them. Requires: equal numbers of stages.
void add_cuts(std::vector<std::string>& changes, const Plan& a, const Plan& b) {
  std::vector<std::string> moved;
  for (std::size_t s = 1; s < a.stages.size(); ++s)
    add_change(moved, "", std::to_string(a.stages[s].first_layer), std::to_string(b.stages[s].first_layer));
  if (!moved.empty()) changes.push_back("cuts:" + listed<std::string>(moved, ",", [](const std::string& text) { return text; }));
}

void add_stages(std::vector<std::string>& changes, const Plan& a, const Plan& b) {
  if (a.num_stages() != b.num_stages()) {
    const auto recompute = [](const Plan& plan) { return listed<Stage>(plan.stages, " | ", recompute_of); };
    const auto devices = [](const Plan& plan) {
      return listed<Stage>(plan.stages, " | ", [&](const Stage& stage) { return devices_of(plan, stage); });
    };
    add_change(changes, "stages:", stages_of(a), stages_of(b));
    add_change(changes, "stages on:", devices(a), devices(b));
    const auto any = [](const Plan& plan) {
      return std::ranges::any_of(plan.stages, [](const Stage& stage) { return stage.recompute.mode != Recompute::Mode::none; });
    };
    if (any(a) || any(b)) add_change(changes, "recompute:", recompute(a), recompute(b));
    const auto offload = [](const Plan& plan) { return listed<Stage>(plan.stages, " | ", offload_of); };
    if (planner::offloads(a) || planner::offloads(b)) add_change(changes, "offload:", offload(a), offload(b));
    return;
  }
  add_cuts(changes, a, b);
  for (std::size_t s = 0; s < a.stages.size(); ++s) {
    const std::string stage = "stage " + std::to_string(s);
    add_change(changes, stage + ": on", devices_of(a, a.stages[s]), devices_of(b, b.stages[s]));
    add_change(changes, stage + ": recompute", recompute_of(a.stages[s]), recompute_of(b.stages[s]));
    add_change(changes, stage + ": offload", offload_of(a.stages[s]), offload_of(b.stages[s]));
  }
}

std::string fused_stages_of(const Plan& plan) {
  std::set<int> stages;
  for (const std::vector<Action>& actions : plan.actions)
    for (const Action& action : actions)
      if (action.further > 0) stages.insert(action.stage);
  return stages.empty() ? "none" : (stages.size() > 1 ? "stages " : "stage ") + in_ranges({stages.begin(), stages.end()});
}

}  // namespace

std::string in_ranges(const std::vector<int>& ascending) {
  std::string text;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(ascending[i]) + (last > i ? "-" + std::to_string(ascending[last]) : "");
    i = last + 1;
  }
  return text;
}

std::vector<std::string> plan_changes(const Plan& a, const Plan& b) {
  const auto devices = [](const Plan& plan) {
    return listed<std::string>(plan.devices, ", ", [](const std::string& name) { return name; });
  };
  std::vector<std::string> changes;
  add_change(changes, "batch:", std::to_string(a.global_batch_size()), std::to_string(b.global_batch_size()));
  add_change(changes, "devices:", devices(a), devices(b));
  add_stages(changes, a, b);
  add_change(changes, "micro-batches:", microbatches_of(a), microbatches_of(b));
  add_change(changes, "schedule:", a.schedule, b.schedule);
  const auto helps = [](const Plan& plan) { return plan.options.idle_devices_help ? "yes" : "no"; };
  add_change(changes, "idle devices help:", helps(a), helps(b));
  add_change(changes, "precision:", name_of(a.options.precision), name_of(b.options.precision));
  add_change(changes, "memory format:", name_of(a.options.memory_format), name_of(b.options.memory_format));
  const auto threads = [](const Plan& plan) {
    return planner::has_default_threads(plan) ? "one per core" : planner::threads_in_words(plan);
  };
  add_change(changes, "threads:", threads(a), threads(b));
  const auto replaces = [](const Plan& plan) { return plan.options.replace_slow_kernels ? "yes" : "no"; };
  add_change(changes, "slow kernels replaced:", replaces(a), replaces(b));
  add_change(changes, "fused weight gradients:", fused_stages_of(a), fused_stages_of(b));
  if (changes.empty() && a.microbatch_sizes != b.microbatch_sizes) changes.emplace_back("micro-batches: in another order");
  if (changes.empty() && a.actions != b.actions) changes.push_back("schedule: both are called " + a.schedule + ", their actions differ");
  return changes;
}

}  // namespace mptune::reports
